import { closeSync, openSync, renameSync, writeSync } from 'node:fs';
import { endianness } from 'node:os';
import { gzipSync } from 'node:zlib';
import { writing } from '../writing.js';
import { CompactWriter } from './compact.js';
import { type ColumnArray, createPageBuffer, type ParquetType, putBits, putIndexes, putLevels, putMemory, putTexts } from './page.js';
import { createColumnScratch, gatherColumn, isConstant } from './scratch.js';

/** One column of a Parquet file. Optional columns hold NULL where an integer is -1 or a floating-point number is NaN. */
export interface ParquetColumn {
  name: string;
  type: ParquetType;
  optional: boolean;
}

/** A column's values in one row group; a string column gives name numbers and the names they stand for. */
export interface ColumnValues {
  values: ColumnArray;
  names?: readonly string[];
}

/** How a Parquet file is written; without them uncompressed and with no metadata of its own. */
export interface ParquetOptions {
  compression?: 'none' | 'gzip';
  /** Key-value pairs of the file's footer. */
  metadata?: Readonly<Record<string, string>>;
}

interface ColumnChunk {
  encodings: number[];
  dictionaryOffset: number;
  dataOffset: number;
  values: number;
  storedBytes: number;
  plainBytes: number;
}

// Numbers of the Parquet format (Apache Parquet, parquet.thrift).
const TYPE_NUMBER = { boolean: 0, int32: 1, int64: 2, float: 4, double: 5, string: 6 } as const;
const PLAIN = 0;
const RLE = 3;
const RLE_DICTIONARY = 8;
const DATA_PAGE = 0;
const DICTIONARY_PAGE = 2;
const MAGIC = Buffer.from('PAR1');
/** Bytes gathered before they are written to the file. */
const COLLECT_BYTES = 1 << 18;

/**
 * A streaming writer of flat Parquet files: one row group per call, one page per column, nothing kept but the footer's offsets. It exists because loading
 * DuckDB to write 20,000 rows costs more time and memory than the whole of this; DuckDB reads the files back (`queryRun`, and the tests).
 * The file appears under its name only when `close` has written the footer, so a broken file is never taken for a whole one.
 */
export class ParquetWriter {
  rows = 0;
  bytes = 0;
  private readonly file: number;
  private readonly groups: { rows: number; chunks: ColumnChunk[] }[] = [];
  private readonly page = createPageBuffer();
  private readonly thrift = new CompactWriter();
  private scratch = createColumnScratch(0);
  /** By name number: its place among the texts of the column that is being written, else -1. */
  private numberOf = new Int32Array(0);
  private readonly collector = new Uint8Array(COLLECT_BYTES);
  private collected = 0;
  private closed = false;

  constructor(
    private readonly path: string,
    private readonly columns: readonly ParquetColumn[],
    private readonly options: ParquetOptions = {},
  ) {
    if (endianness() !== 'LE')
      throw new Error('Parquet files are little-endian and are written from memory: this machine is big-endian, use another');
    this.file = writing(path, () => openSync(`${path}.partial`, 'w'));
    this.write(MAGIC);
  }

  /** Writes `rows` rows; `values` holds one entry per column, in order. */
  writeRowGroup(rows: number, values: readonly ColumnValues[]): void {
    if (this.closed) throw new Error(`Parquet file ${this.path} is closed; nothing can be added to it`);
    if (values.length !== this.columns.length) {
      throw new RangeError(`Parquet file ${this.path}: ${values.length} columns given, ${this.columns.length} declared`);
    }
    if (rows === 0) return;
    if (this.scratch.integers.length < rows) this.scratch = createColumnScratch(rows);
    const chunks = this.columns.map((column, i) => this.writeColumn(column, values[i]!, rows));
    this.groups.push({ rows, chunks });
    this.rows += rows;
  }

  /** Writes the footer and gives the file its name. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    const footer = this.footer();
    this.write(footer);
    const tail = Buffer.alloc(8);
    tail.writeUInt32LE(footer.length, 0);
    MAGIC.copy(tail, 4);
    this.write(tail);
    this.flush();
    closeSync(this.file);
    renameSync(`${this.path}.partial`, this.path);
  }

  private writeColumn(column: ParquetColumn, source: ColumnValues, rows: number): ColumnChunk {
    const chunk: ColumnChunk = {
      encodings: [RLE, PLAIN],
      dictionaryOffset: -1,
      dataOffset: 0,
      values: rows,
      storedBytes: 0,
      plainBytes: 0,
    };
    const { page, scratch } = this;
    const { type } = column;
    const present = gatherColumn(scratch, type, column.optional, source.values, rows);
    const texts = type === 'string' ? this.numberTexts(column, source.names ?? [], present) : null;
    const constant = texts === null && type !== 'boolean' && isConstant(scratch, type, present);
    if (texts !== null || constant) {
      page.length = 0;
      if (texts !== null) putTexts(page, texts);
      else this.putPlain(type, 1);
      chunk.dictionaryOffset = this.bytes;
      chunk.encodings = [RLE, PLAIN, RLE_DICTIONARY];
      this.writePage(chunk, DICTIONARY_PAGE, texts?.length ?? 1, PLAIN);
    }
    page.length = 0;
    chunk.dataOffset = this.bytes;
    if (column.optional) putLevels(page, scratch.isPresent, rows, present);
    if (texts !== null || constant) putIndexes(page, scratch.integers, present, texts?.length ?? 1);
    else this.putPlain(type, present);
    this.writePage(chunk, DATA_PAGE, rows, texts !== null || constant ? RLE_DICTIONARY : PLAIN);
    return chunk;
  }

  /** The first `count` gathered values in PLAIN encoding. */
  private putPlain(type: ParquetType, count: number): void {
    const { page, scratch } = this;
    if (type === 'int64') putMemory(page, scratch.words, count * 8);
    else if (type === 'double') putMemory(page, scratch.doubles, count * 8);
    else if (type === 'float') putMemory(page, scratch.floats, count * 4);
    else if (type === 'int32') putMemory(page, scratch.integers, count * 4);
    else putBits(page, Uint8Array.from(scratch.integers.subarray(0, count), toBit), count);
  }

  /** Replaces the gathered name numbers by numbers in order of first appearance and returns the texts in that order. */
  private numberTexts(column: ParquetColumn, names: readonly string[], count: number): string[] {
    const { integers } = this.scratch;
    if (this.numberOf.length < names.length) this.numberOf = new Int32Array(2 * names.length).fill(-1);
    const { numberOf } = this;
    const texts: string[] = [];
    const ids: number[] = [];
    for (let i = 0; i < count; i++) {
      const id = integers[i]!;
      if (!(id >= 0 && id < names.length)) {
        throw new RangeError(
          `Parquet file ${this.path}, column "${column.name}", near row ${this.rows + i}: name number ${id} is outside the ${names.length} known names; name every id before it is recorded`,
        );
      }
      if (numberOf[id]! < 0) {
        numberOf[id] = texts.push(names[id]!) - 1;
        ids.push(id);
      }
      integers[i] = numberOf[id]!;
    }
    // There may be many times as many names as a row group has rows.
    for (const id of ids) numberOf[id] = -1;
    // A dictionary page may not be absent where the encoding refers to one.
    if (texts.length === 0) texts.push('');
    return texts;
  }

  private writePage(chunk: ColumnChunk, kind: number, values: number, encoding: number): void {
    const plain = this.page.bytes.subarray(0, this.page.length);
    const stored = this.options.compression === 'gzip' ? gzipSync(plain, { level: 1 }) : plain;
    const thrift = this.thrift;
    thrift.int32(1, kind);
    thrift.int32(2, plain.length);
    thrift.int32(3, stored.length);
    if (kind === DATA_PAGE) {
      thrift.struct(5, () => {
        thrift.int32(1, values);
        thrift.int32(2, encoding);
        thrift.int32(3, RLE);
        thrift.int32(4, RLE);
      });
    } else {
      thrift.struct(7, () => {
        thrift.int32(1, values);
        thrift.int32(2, encoding);
      });
    }
    const header = thrift.finish();
    this.write(header);
    this.write(stored);
    chunk.plainBytes += header.length + plain.length;
    chunk.storedBytes += header.length + stored.length;
  }

  private footer(): Buffer {
    const thrift = this.thrift;
    thrift.int32(1, 2);
    thrift.structs(2, [null, ...this.columns], (column) => {
      if (column === null) {
        thrift.text(4, 'schema');
        thrift.int32(5, this.columns.length);
        return;
      }
      thrift.int32(1, TYPE_NUMBER[column.type]);
      thrift.int32(3, column.optional ? 1 : 0);
      thrift.text(4, column.name);
      if (column.type === 'string') thrift.int32(6, 0);
    });
    thrift.int64(3, this.rows);
    thrift.structs(4, this.groups, (group) => this.describeGroup(group));
    const metadata = Object.entries(this.options.metadata ?? {});
    if (metadata.length > 0) {
      thrift.structs(5, metadata, ([key, value]) => {
        thrift.text(1, key);
        thrift.text(2, value);
      });
    }
    thrift.text(6, 'braess');
    return thrift.finish();
  }

  private describeGroup(group: { rows: number; chunks: ColumnChunk[] }): void {
    const thrift = this.thrift;
    thrift.structs(1, group.chunks, (chunk) => {
      const column = this.columns[group.chunks.indexOf(chunk)]!;
      thrift.int64(2, chunk.dictionaryOffset >= 0 ? chunk.dictionaryOffset : chunk.dataOffset);
      thrift.struct(3, () => {
        thrift.int32(1, TYPE_NUMBER[column.type]);
        thrift.int32s(2, chunk.encodings);
        thrift.texts(3, [column.name]);
        thrift.int32(4, this.options.compression === 'gzip' ? 2 : 0);
        thrift.int64(5, chunk.values);
        thrift.int64(6, chunk.plainBytes);
        thrift.int64(7, chunk.storedBytes);
        thrift.int64(9, chunk.dataOffset);
        if (chunk.dictionaryOffset >= 0) thrift.int64(11, chunk.dictionaryOffset);
      });
    });
    thrift.int64(
      2,
      group.chunks.reduce((sum, chunk) => sum + chunk.plainBytes, 0),
    );
    thrift.int64(3, group.rows);
  }

  /** Collects small pieces: a system call for each page header would cost more than encoding the page. */
  private write(bytes: Uint8Array): void {
    this.bytes += bytes.length;
    if (this.collected + bytes.length > COLLECT_BYTES) this.flush();
    if (bytes.length > COLLECT_BYTES) this.writeOut(bytes);
    else {
      this.collector.set(bytes, this.collected);
      this.collected += bytes.length;
    }
  }

  private flush(): void {
    this.writeOut(this.collector.subarray(0, this.collected));
    this.collected = 0;
  }

  private writeOut(bytes: Uint8Array): void {
    let from = 0;
    writing(this.path, () => {
      while (from < bytes.length) from += writeSync(this.file, bytes, from, bytes.length - from);
    });
  }
}

function toBit(value: number): number {
  return value === 0 ? 0 : 1;
}
