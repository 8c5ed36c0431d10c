/**
 * Writer of Thrift's compact protocol, as much of it as Parquet's metadata needs
 * (source: Apache Thrift, "Thrift compact protocol encoding").
 */
export class CompactWriter {
  private bytes = Buffer.alloc(1024);
  private length = 0;
  private lastField = 0;
  private readonly fieldStack: number[] = [];

  int32(field: number, value: number): void {
    this.header(field, 5);
    this.zigzag(value);
  }

  int64(field: number, value: number): void {
    this.header(field, 6);
    this.zigzag(value);
  }

  text(field: number, value: string): void {
    this.header(field, 8);
    this.rawText(value);
  }

  struct(field: number, write: () => void): void {
    this.header(field, 12);
    this.element(write);
  }

  /** A list of structs, each written by `write`. */
  structs<T>(field: number, items: readonly T[], write: (item: T) => void): void {
    this.listHeader(field, items.length, 12);
    for (const item of items) this.element(() => write(item));
  }

  int32s(field: number, items: readonly number[]): void {
    this.listHeader(field, items.length, 5);
    for (const item of items) this.zigzag(item);
  }

  texts(field: number, items: readonly string[]): void {
    this.listHeader(field, items.length, 8);
    for (const item of items) this.rawText(item);
  }

  /** Ends the outermost struct and returns its bytes; the writer is then empty again. */
  finish(): Buffer {
    this.byte(0);
    const result = Buffer.from(this.bytes.subarray(0, this.length));
    this.length = 0;
    this.lastField = 0;
    return result;
  }

  private element(write: () => void): void {
    this.fieldStack.push(this.lastField);
    this.lastField = 0;
    write();
    this.byte(0);
    this.lastField = this.fieldStack.pop()!;
  }

  private header(field: number, type: number): void {
    const delta = field - this.lastField;
    if (delta < 1 || delta > 15) throw new RangeError(`thrift field ${field} after ${this.lastField}: fields must ascend by at most 15`);
    this.byte((delta << 4) | type);
    this.lastField = field;
  }

  private listHeader(field: number, size: number, type: number): void {
    this.header(field, 9);
    if (size < 15) this.byte((size << 4) | type);
    else {
      this.byte(0xf0 | type);
      this.varint(size);
    }
  }

  private rawText(value: string): void {
    const encoded = Buffer.from(value, 'utf8');
    this.varint(encoded.length);
    this.reserve(encoded.length);
    encoded.copy(this.bytes, this.length);
    this.length += encoded.length;
  }

  private zigzag(value: number): void {
    // Beyond 32 bits the shift form of zigzag would cut the number, so it is done by arithmetic.
    this.varint(value >= 0 ? value * 2 : -value * 2 - 1);
  }

  private varint(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.byte((rest % 128) | 128);
      rest = Math.floor(rest / 128);
    }
    this.byte(rest);
  }

  private byte(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  private reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const grown = Buffer.alloc(Math.max(this.bytes.length * 2, this.length + count));
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
  }
}
