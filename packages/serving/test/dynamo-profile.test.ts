import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { createPassShape, importDynamoProfile, mixedPassNs, readDynamoProfile } from '@braess/serving';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const prefill = { prefill_isl: [100, 1000], prefill_ttft: [20.5, 60.25] };
const decode = {
  x_kv_usage: [0.1, 0.5, 0.1, 0.5],
  y_context_length: [1000, 1000, 3000, 3000],
  z_itl: [8, 12, 10, 20],
  max_kv_tokens: [100_000],
};
const expected = importDynamoProfile({ ...prefill, ...decode }, 'test');

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'braess-profile-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A .npy file of format 1.0. */
function npy(type: string, values: number[], shape = `${values.length},`): Buffer {
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape}), }`;
  const header = Buffer.from(text.padEnd(117) + '\n', 'latin1');
  const prefix = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0]);
  const data = Buffer.alloc(values.length * 8);
  for (const [index, value] of values.entries()) {
    if (type === '<f8') data.writeDoubleLE(value, index * 8);
    else data.writeBigInt64LE(BigInt(value), index * 8);
  }
  return Buffer.concat([prefix, header, data]);
}

/** A ZIP archive; `extraBytes` are in local headers only, as NumPy's own writer has them. */
function zip(files: [string, Buffer][], deflate: boolean, extraBytes = 20): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of files) {
    const packed = deflate ? deflateRawSync(content) : content;
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(deflate ? 8 : 0, 8);
    local.writeUInt16LE(name.length, 26);
    local.writeUInt16LE(extraBytes, 28);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(deflate ? 8 : 0, 10);
    entry.writeUInt32LE(crc32(content), 16);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(content.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    directory.push(entry, Buffer.from(name));
    parts.push(local, Buffer.from(name), Buffer.alloc(extraBytes), packed);
    offset += 30 + name.length + extraBytes + packed.length;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listing, end]);
}

function archives(deflate: boolean): [Buffer, Buffer] {
  const floats = (name: string, values: number[]): [string, Buffer] => [`${name}.npy`, npy('<f8', values)];
  return [
    zip([['prefill_isl.npy', npy('<i8', prefill.prefill_isl)], floats('prefill_ttft', prefill.prefill_ttft)], deflate),
    zip(
      [
        floats('x_kv_usage', decode.x_kv_usage),
        ['y_context_length.npy', npy('<i8', decode.y_context_length)],
        floats('z_itl', decode.z_itl),
        ['max_kv_tokens.npy', npy('<i8', decode.max_kv_tokens)],
      ],
      deflate,
    ),
  ];
}

function writeProfile(first: Buffer, second: Buffer): void {
  for (const name of ['selected_prefill_interpolation', 'selected_decode_interpolation'])
    mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'selected_prefill_interpolation/raw_data.npz'), first);
  writeFileSync(join(folder, 'selected_decode_interpolation/raw_data.npz'), second);
}

describe("Dynamo's profile folders", () => {
  for (const deflate of [false, true]) {
    it(`reads ${deflate ? 'compressed' : 'stored'} NumPy archives`, () => {
      writeProfile(...archives(deflate));
      const timing = readDynamoProfile(folder);
      expect(timing).toEqual(expected);
      const shape = { ...createPassShape(), decodeSequences: 10, decodeContextTokens: 10_000 };
      expect(mixedPassNs(timing, shape, 1)).toBe(8e6);
    });
  }

  it('reads the JSON form', () => {
    writeFileSync(join(folder, 'prefill_raw_data.json'), JSON.stringify(prefill));
    writeFileSync(join(folder, 'decode_raw_data.json'), JSON.stringify({ ...decode, max_kv_tokens: 100_000 }));
    expect(readDynamoProfile(folder)).toEqual(expected);
  });

  it('says what is wrong', () => {
    expect(() => readDynamoProfile(folder)).toThrow(/no Dynamo profile; expected .*raw_data\.npz .* or .*prefill_raw_data\.json/);
    const [first, second] = archives(false);
    writeProfile(first.subarray(0, first.length - 30), second);
    expect(() => readDynamoProfile(folder)).toThrow(/not a ZIP archive, or cut off/);
    writeFileSync(join(folder, 'selected_prefill_interpolation/raw_data.npz'), zip([['prefill_isl.npy', npy('<c16', [1])]], false));
    expect(() => readDynamoProfile(folder)).toThrow(/type "<c16"; supported are <f8/);
    writeFileSync(
      join(folder, 'selected_prefill_interpolation/raw_data.npz'),
      zip([['prefill_isl.npy', npy('<f8', [1, 2], '2000,')]], false),
    );
    expect(() => readDynamoProfile(folder)).toThrow(/2000 numbers promised, cut off/);
    writeFileSync(join(folder, 'selected_prefill_interpolation/raw_data.npz'), zip([['prefill_isl.npy', npy('<f8', [1, 2])]], false));
    expect(() => readDynamoProfile(folder)).toThrow(/prefill_ttft: must be a list/);
  });

  it('refuses a capacity that is no number, and numbers that no profile has', () => {
    const withCapacity = (max_kv_tokens: unknown) => () => importDynamoProfile({ ...prefill, ...decode, max_kv_tokens } as never, 'p');
    // Of the text the first digit was taken for the capacity.
    expect(withCapacity('5000')).toThrow('p: max_kv_tokens is "5000"; must be a finite number of at least 1');
    expect(withCapacity([[5000]])).toThrow('max_kv_tokens is [5000]');
    expect(withCapacity([Number.POSITIVE_INFINITY])).toThrow('max_kv_tokens is Infinity');
    expect(withCapacity(undefined)).toThrow('max_kv_tokens is undefined');
    expect(withCapacity(5000)().capacityTokens).toBe(5000);
    expect(() => importDynamoProfile({ ...prefill, ...decode, prefill_ttft: [1, Number.NaN] }, 'p')).toThrow('prefill_ttft[1]: is NaN');
  });

  it('refuses archives with a damaged byte, and tables, with the array', () => {
    const [, second] = archives(false);
    for (const deflate of [false, true]) {
      const [first] = archives(deflate);
      const middle = first.indexOf('prefill_ttft.npy') + 'prefill_ttft.npy'.length + 20 + (deflate ? 40 : 128);
      first[middle]! ^= 0x10;
      writeProfile(first, second);
      expect(() => readDynamoProfile(folder)).toThrow(/selected_prefill_interpolation\/raw_data\.npz: prefill_ttft\.npy: damaged/);
    }
    writeProfile(zip([['prefill_isl.npy', npy('<f8', [1, 2, 3, 4], '2, 2')]], false), second);
    expect(() => readDynamoProfile(folder)).toThrow(/prefill_isl\.npy: has the shape \(2, 2\); must be a list of one dimension/);
  });
});
