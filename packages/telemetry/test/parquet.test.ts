import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ColumnValues, type ParquetColumn, ParquetWriter } from '@braess/telemetry';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'parquet-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const connection = DuckDBInstance.create(':memory:').then((instance) => instance.connect());

async function readBack(path: string): Promise<unknown[][]> {
  const reader = await (await connection).runAndReadAll(`select * from read_parquet('${path}')`);
  return reader.getRowsJS().map((row) => row.map((value) => (typeof value === 'bigint' ? Number(value) : value)));
}

const COLUMNS: readonly ParquetColumn[] = [
  { name: 'i', type: 'int32', optional: false },
  { name: 'maybe_i', type: 'int32', optional: true },
  { name: 't', type: 'int64', optional: false },
  { name: 'maybe_t', type: 'int64', optional: true },
  { name: 'd', type: 'double', optional: false },
  { name: 'maybe_d', type: 'double', optional: true },
  { name: 'maybe_f', type: 'float', optional: true },
  { name: 'flag', type: 'boolean', optional: false },
  { name: 'text', type: 'string', optional: false },
  { name: 'maybe_text', type: 'string', optional: true },
];

interface Row {
  i: number;
  maybeI: number;
  t: number;
  maybeT: number;
  d: number;
  maybeD: number;
  f: number;
  flag: number;
  text: number;
  maybeText: number;
}

const row: fc.Arbitrary<Row> = fc.record({
  i: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  maybeI: fc.oneof(fc.constant(-1), fc.nat()),
  t: fc.maxSafeInteger(),
  maybeT: fc.oneof(fc.constant(-1), fc.maxSafeNat()),
  d: fc.double({ noNaN: true }),
  maybeD: fc.oneof(fc.constant(Number.NaN), fc.double({ noNaN: true })),
  f: fc.oneof(fc.constant(Number.NaN), fc.float({ noNaN: true })),
  flag: fc.nat(1),
  text: fc.nat(2),
  maybeText: fc.integer({ min: -1, max: 2 }),
});

function valuesOf(rows: readonly Row[], names: readonly string[]): ColumnValues[] {
  const integers = (key: keyof Row): ColumnValues => ({ values: Int32Array.from(rows, (r) => r[key]) });
  const doubles = (key: keyof Row): ColumnValues => ({ values: Float64Array.from(rows, (r) => r[key]) });
  return [
    integers('i'),
    integers('maybeI'),
    doubles('t'),
    doubles('maybeT'),
    doubles('d'),
    doubles('maybeD'),
    { values: Float32Array.from(rows, (r) => r.f) },
    { values: Uint8Array.from(rows, (r) => r.flag) },
    { values: Uint16Array.from(rows, (r) => r.text), names },
    { values: Int8Array.from(rows, (r) => r.maybeText), names },
  ];
}

function expected(r: Row, names: readonly string[]): unknown[] {
  const time = (value: number): number | null => (value < 0 ? null : value);
  const float = (value: number): number | null => (Number.isNaN(value) ? null : value);
  return [
    r.i,
    time(r.maybeI),
    r.t,
    time(r.maybeT),
    r.d,
    float(r.maybeD),
    float(r.f),
    r.flag === 1,
    names[r.text],
    r.maybeText < 0 ? null : names[r.maybeText],
  ];
}

describe('Parquet writer', () => {
  it('writes what DuckDB reads back, for every type, NULLs and several row groups, plain and gzip', async () => {
    let file = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(row, { minLength: 1, maxLength: 70 }), { minLength: 1, maxLength: 4 }),
        fc.array(fc.string({ unit: 'grapheme' }), { minLength: 3, maxLength: 3 }),
        fc.constantFrom('none' as const, 'gzip' as const),
        async (groups, names, compression) => {
          const path = join(folder, `${file++}.parquet`);
          const writer = new ParquetWriter(path, COLUMNS, { compression });
          for (const group of groups) writer.writeRowGroup(group.length, valuesOf(group, names));
          writer.close();
          const read = await readBack(path);
          const want = groups.flat().map((r) => expected(r, names));
          // -0 and 0 are the same number to SQL but not to toEqual.
          const plain = (rows: unknown[][]): unknown[][] => rows.map((cells) => cells.map((cell) => (cell === 0 ? 0 : cell)));
          expect(plain(read)).toEqual(plain(want));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('numbers more than 256 texts with wider indexes, and all-missing columns', async () => {
    const names = Array.from({ length: 70_000 }, (_, i) => `name ${i}`);
    const columns: ParquetColumn[] = [
      { name: 'few', type: 'string', optional: false },
      { name: 'many', type: 'string', optional: false },
      { name: 'none', type: 'string', optional: true },
      { name: 'never', type: 'int64', optional: true },
    ];
    const path = join(folder, 'wide.parquet');
    const writer = new ParquetWriter(path, columns);
    const rows = 70_000;
    const ids = Int32Array.from({ length: rows }, (_, i) => (i * 7919) % rows);
    writer.writeRowGroup(rows, [
      { values: ids.map((id) => id % 300), names },
      { values: ids, names },
      { values: new Int32Array(rows).fill(-1), names },
      { values: new Float64Array(rows).fill(-1) },
    ]);
    writer.close();
    const read = await readBack(path);
    for (let i = 0; i < rows; i += 997) expect(read[i]).toEqual([`name ${ids[i]! % 300}`, `name ${ids[i]}`, null, null]);
    expect(read).toHaveLength(rows);
  });

  it('carries metadata, an empty table, and DuckDB sees the declared types', async () => {
    const path = join(folder, 'empty.parquet');
    const writer = new ParquetWriter(path, COLUMNS, { metadata: { seed: '7' } });
    writer.close();
    expect(await readBack(path)).toEqual([]);
    const types = await (await connection).runAndReadAll(`describe select * from read_parquet('${path}')`);
    expect(types.getRowsJS().map((r) => r[1])).toEqual([
      'INTEGER',
      'INTEGER',
      'BIGINT',
      'BIGINT',
      'DOUBLE',
      'DOUBLE',
      'FLOAT',
      'BOOLEAN',
      'VARCHAR',
      'VARCHAR',
    ]);
    const metadata = await (await connection).runAndReadAll(`select decode(key), decode(value) from parquet_kv_metadata('${path}')`);
    expect(metadata.getRowsJS()).toEqual([['seed', '7']]);
  });

  it('gives the file its name only when it is whole, and names mistakes', () => {
    const path = join(folder, 'open.parquet');
    const writer = new ParquetWriter(path, COLUMNS);
    expect(() => readFileSync(path)).toThrow(/ENOENT/);
    expect(() => writer.writeRowGroup(1, [])).toThrow(/0 columns given, 10 declared/);
    const bad = valuesOf([{ i: 0, maybeI: 0, t: 0, maybeT: 0, d: 0, maybeD: 0, f: 0, flag: 0, text: 5, maybeText: 0 }], ['a', 'b']);
    expect(() => writer.writeRowGroup(1, bad)).toThrow(/column "text".*name number 5 is outside the 2 known names/);
    writer.close();
    expect(readFileSync(path).subarray(0, 4).toString()).toBe('PAR1');
    expect(() => writer.writeRowGroup(1, bad)).toThrow(/is closed/);
  });
});
