import { crc32, inflateRawSync } from 'node:zlib';

/** Limit on one array of an archive once unpacked; profiles hold a few hundred numbers. */
const maximumArrayBytes = 1 << 26;

/**
 * Arrays of a NumPy .npz archive (a ZIP of .npy files, stored or deflated) as lists of numbers, by name. Throws with the file and the array on a damaged
 * archive, another type of number, or a table of more than one dimension.
 */
export function readNpz(archive: Buffer, place: string): Map<string, number[]> {
  const arrays = new Map<string, number[]>();
  // ZIP application note 4.3.16: the end record is the last 22 bytes before a comment.
  const end = archive.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  if (end < 0 || end + 22 > archive.length) throw new Error(`${place}: not a ZIP archive, or cut off`);
  const entries = archive.readUInt16LE(end + 10);
  let at = archive.readUInt32LE(end + 16);
  for (let entry = 0; entry < entries; entry++) {
    if (at + 46 > archive.length || archive.readUInt32LE(at) !== 0x02014b50)
      throw new Error(`${place}: ZIP directory entry ${entry} is damaged`);
    const nameLength = archive.readUInt16LE(at + 28);
    const name = archive.toString('utf8', at + 46, at + 46 + nameLength);
    const content = unpacked(archive, at, `${place}: ${name}`);
    if (name.endsWith('.npy')) arrays.set(name.slice(0, -4), readNpy(content, `${place}: ${name}`));
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  return arrays;
}

function unpacked(archive: Buffer, directoryAt: number, place: string): Buffer {
  const method = archive.readUInt16LE(directoryAt + 10);
  const packedBytes = archive.readUInt32LE(directoryAt + 20);
  const localAt = archive.readUInt32LE(directoryAt + 42);
  if (localAt + 30 > archive.length) throw new Error(`${place}: lies beyond the end of the archive`);
  // The local header repeats name and extra field, the latter at another length.
  const start = localAt + 30 + archive.readUInt16LE(localAt + 26) + archive.readUInt16LE(localAt + 28);
  const packed = archive.subarray(start, start + packedBytes);
  if (packed.length !== packedBytes) throw new Error(`${place}: cut off`);
  if (method !== 0 && method !== 8)
    throw new Error(`${place}: ZIP method ${method} is not supported; save with numpy.savez or numpy.savez_compressed`);
  const content = method === 0 ? packed : inflated(packed, place);
  if (crc32(content) !== archive.readUInt32LE(directoryAt + 16)) throw new Error(`${place}: damaged: its checksum is another`);
  return content;
}

function inflated(packed: Buffer, place: string): Buffer {
  try {
    return inflateRawSync(packed, { maxOutputLength: maximumArrayBytes });
  } catch (error) {
    throw new Error(`${place}: damaged, or too large for a profile (${(error as Error).message})`);
  }
}

/** NumPy format 1 to 3: magic, version, header length, a header in Python syntax, data. */
function readNpy(content: Buffer, place: string): number[] {
  if (content.length < 12 || content.toString('latin1', 0, 6) !== '\x93NUMPY') throw new Error(`${place}: not a NumPy array`);
  const long = content[6]! > 1;
  const headerStart = long ? 12 : 10;
  const dataStart = headerStart + (long ? content.readUInt32LE(8) : content.readUInt16LE(8));
  const header = content.toString('latin1', headerStart, dataStart);
  const type = /'descr':\s*'([^']+)'/.exec(header)?.[1] ?? '';
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const read = readers[type];
  if (read === undefined) throw new Error(`${place}: numbers of type "${type}"; supported are ${Object.keys(readers).join(', ')}`);
  if (shape === undefined) throw new Error(`${place}: no shape in its header`);
  const lengths = shape.split(',').filter((part) => part.trim() !== '');
  // Of a table, it would depend on its order in memory which number is whose.
  if (lengths.length > 1) throw new Error(`${place}: has the shape (${shape}); must be a list of one dimension`);
  const count = lengths.length === 0 ? 1 : Number(lengths[0]);
  const bytes = Number(type.slice(2));
  if (!Number.isSafeInteger(count) || dataStart + count * bytes > content.length)
    throw new Error(`${place}: ${count} numbers promised, cut off before`);
  return Array.from({ length: count }, (_, index) => read(content, dataStart + index * bytes));
}

const readers: Readonly<Record<string, (content: Buffer, at: number) => number>> = {
  '<f8': (content, at) => content.readDoubleLE(at),
  '<f4': (content, at) => content.readFloatLE(at),
  '<i8': (content, at) => Number(content.readBigInt64LE(at)),
  '<i4': (content, at) => content.readInt32LE(at),
};
