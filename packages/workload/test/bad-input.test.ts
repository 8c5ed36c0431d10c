import { existsSync, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { readTrace, TraceError } from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { temporaryFile } from './traces.js';

interface FormatCase {
  name: string;
  header: string[];
  /** A good row at a time in seconds, so that rows can be put out of order. */
  row: (second: number, input?: string, output?: string) => string;
  withoutOutput: string;
  /** The name of the output field in messages. */
  output: string;
}

const dynamoRow = (second: number, input: string, output: string): string =>
  `{"timestamp":1,"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_id":"r${second}","input_tokens":${input},"output_tokens":${output},"request_received_ms":${1e12 + second * 1000},"replay":{"trace_block_size":16,"input_length":${input},"input_sequence_hashes":[7]}}}}`;

const FORMATS: FormatCase[] = [
  {
    name: 'mooncake',
    header: [],
    row: (second, input = '9', output = '5') =>
      `{"timestamp": ${second * 1000}, "input_length": ${input}, "output_length": ${output}, "hash_ids": [0]}`,
    withoutOutput: '{"timestamp": 1, "input_length": 9, "hash_ids": [0]}',
    output: 'output_length',
  },
  {
    name: 'azure',
    header: ['TIMESTAMP,ContextTokens,GeneratedTokens'],
    row: (second, input = '9', output = '5') => `2023-11-16 18:15:${String(second).padStart(2, '0')}.5,${input},${output}`,
    withoutOutput: '2023-11-16 18:15:01,9',
    output: 'GeneratedTokens',
  },
  {
    name: 'burstgpt',
    header: ['Timestamp,Model,Request tokens,Response tokens,Log Type'],
    row: (second, input = '9', output = '5') => `${second},ChatGPT,${input},${output},API log`,
    withoutOutput: '1,ChatGPT,9,API log',
    output: 'Response tokens',
  },
  {
    name: 'plain',
    header: ['request_id,arrival_s,input_tokens,output_tokens'],
    row: (second, input = '9', output = '5') => `r${second},${second}.25,${input},${output}`,
    withoutOutput: 'r1,1.0,9',
    output: 'output_tokens',
  },
  {
    name: 'dynamo',
    header: [],
    row: (second, input = '9', output = '5') => dynamoRow(second, input, output),
    withoutOutput: dynamoRow(1, '9', '5').replace('"output_tokens":5,', ''),
    output: 'event.request.output_tokens',
  },
];

let files = 0;
function fileOf(lines: string[], ending = '\n'): string {
  return temporaryFile(`bad${files++}.trace`, lines.map((line) => line + ending).join(''));
}

async function errorOf(path: string): Promise<TraceError> {
  const error = await readTrace(path).then(
    ({ table }) => new Error(`read ${table.requestCount} requests without an error`),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(TraceError);
  return error as TraceError;
}

describe.each(FORMATS)('a $name trace', (format) => {
  const good = [...format.header, format.row(1), format.row(2), format.row(3)];
  const badLine = format.header.length + 2;
  const withRow = (row: string): string[] => [...format.header, format.row(1), row, format.row(3)];

  it('is read plain, with a byte order mark, with CRLF, gzipped, and without a last line feed', async () => {
    const plain = await readTrace(fileOf(good));
    expect(plain.report.format).toBe(format.name);
    expect(plain.table.requestCount).toBe(3);
    const variants = [
      fileOf([`\ufeff${good[0]}`, ...good.slice(1)]),
      fileOf(good, '\r\n'),
      temporaryFile(`good${files++}.gz`, gzipSync(`${good.join('\r\n')}\r\n`)),
      temporaryFile(`good${files++}`, good.join('\n')),
      temporaryFile(`good${files++}`, `${good.join('\n')}\n\n\n`),
    ];
    for (const variant of variants) expect((await readTrace(variant)).table).toEqual(plain.table);
  });

  it('that is empty, or has no rows, is refused', async () => {
    expect((await errorOf(fileOf([]))).message).toMatch(/empty/);
    if (format.header.length > 0) expect((await errorOf(fileOf(format.header))).message).toMatch(/no requests/);
  });

  it('whose gzip stream ends early or is broken is refused with its file', async () => {
    const packed = gzipSync([...format.header, ...Array.from({ length: 50 }, (_, second) => format.row(second))].join('\n'));
    for (const length of [3, 20, packed.length - 9, packed.length - 1]) {
      const error = await errorOf(temporaryFile(`cut${files++}.gz`, packed.subarray(0, length)));
      expect(error.message).toMatch(/cut\d+\.gz:\d+: .*(ends early|broken gzip)/);
    }
    const broken = Uint8Array.from(packed);
    broken[packed.length >> 1]! ^= 0xff;
    expect((await errorOf(temporaryFile(`broken${files++}.gz`, broken))).message).toMatch(/gzip|UTF-8|expected/);
  });

  it.each([
    ['zero', '0'],
    ['negative', '-5'],
    ['a fraction', '2.5'],
    ['not a number', 'NaN'],
    ['too large', '99999999999'],
  ])('with an output that is %s names the line', async (_, value) => {
    const error = await errorOf(fileOf(withRow(format.row(2, '9', value))));
    expect(error.line).toBe(badLine);
    expect(error.message).toContain(`:${badLine}: `);
    if (error.field !== '') expect(error.field).toBe(format.output);
    expect(error.message).toContain(value.slice(0, 1));
  });

  it('with an input of zero or without an output names the line', async () => {
    expect((await errorOf(fileOf(withRow(format.row(2, '0'))))).line).toBe(badLine);
    expect((await errorOf(fileOf(withRow(format.withoutOutput)))).line).toBe(badLine);
  });

  it('with a blank line inside names it', async () => {
    expect((await errorOf(fileOf(withRow('')))).line).toBe(badLine);
  });

  it('with text that is not UTF-8 is refused', async () => {
    const bytes = Buffer.concat([Buffer.from(good.join('\n')), Buffer.from([0x0a, 0xff, 0xfe, 0x0a])]);
    expect((await errorOf(temporaryFile(`bytes${files++}`, bytes))).message).toMatch(/UTF-8/);
  });

  it('out of order is refused with both lines, except where the format is written by completion', async () => {
    const lines = [...format.header, format.row(5), format.row(2)];
    if (format.name === 'dynamo') {
      const { table } = await readTrace(fileOf(lines));
      expect([...table.arrivalNs]).toEqual([0, 3e9]);
      expect(table.requestNames).toEqual(['r2', 'r5']);
      return;
    }
    const error = await errorOf(fileOf(lines));
    expect(error.line).toBe(badLine);
    expect(error.message).toContain(`line ${badLine - 1}`);
  });

  it('can be read with bad rows counted, never silently', async () => {
    const lines = [...good, format.row(4, '9', '0'), format.withoutOutput, format.row(6)];
    const { table, report } = await readTrace(fileOf(lines), { badRows: 'count' });
    expect(table.requestCount).toBe(4);
    expect(report.rejectedRows).toBe(2);
    expect(report.rejections.map((message) => /:(\d+):/.exec(message)![1])).toEqual([String(good.length + 1), String(good.length + 2)]);
  });

  it('with random damage is read in full or refused with a TraceError, never anything else', async () => {
    const text = good.join('\n');
    await fc.assert(
      fc.asyncProperty(
        fc.nat(text.length - 1),
        fc.constantFrom('', 'x', ',', '"', '\n', '{', '-', '1e999', '\0'),
        fc.nat(4),
        async (at, insert, cut) => {
          const path = temporaryFile('fuzz', text.slice(0, at) + insert + text.slice(at + cut));
          try {
            const { table } = await readTrace(path);
            expect(table.requestCount).toBeGreaterThan(0);
            for (let row = 0; row < table.requestCount; row++) {
              expect(table.inputTokens[row]).toBeGreaterThan(0);
              expect(table.outputTokens[row]).toBeGreaterThan(0);
              expect(Number.isSafeInteger(table.arrivalNs[row]) && table.arrivalNs[row]! >= (table.arrivalNs[row - 1] ?? 0)).toBe(true);
            }
          } catch (error) {
            if (!(error instanceof TraceError)) throw error;
            expect(error.message).toContain('fuzz');
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('hash lists', () => {
  it.each([
    ['too short', '[1]'],
    ['too long', '[1, 2, 3]'],
    ['empty', '[]'],
    ['no list', '7'],
    ['not whole numbers', '[1, 2.5]'],
    ['negative', '[1, -2]'],
  ])('that are %s are refused', async (_, hashes) => {
    const error = await errorOf(fileOf([`{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": ${hashes}}`]));
    expect(error.line).toBe(1);
    expect(error.field).toMatch(/^hash_ids/);
  });

  it('of a Dynamo trace must fit its length too', async () => {
    const error = await errorOf(fileOf([dynamoRow(1, '17', '5')]));
    expect(error.message).toMatch(/has 1 hashes, expected 2/);
  });
});

describe('plain CSV columns', () => {
  const header = 'request_id,arrival_s,input_tokens,output_tokens';
  it.each([
    ['an unknown column', `${header},colour`, '1,0,9,9,red', 1],
    ['a prefix longer than the prompt', `${header},prefix_group,prefix_tokens`, '1,0,9,9,a,10', 2],
    ['a prefix length without a group', `${header},prefix_group,prefix_tokens`, '1,0,9,9,,5', 2],
    ['a group column alone', `${header},prefix_group`, '1,0,9,9,a', 1],
    ['a doubled column', `${header},input_tokens`, '1,0,9,9,9', 1],
    ['more hashes than blocks', `${header},block_hashes_16`, '1,0,17,9,1-3', 2],
    ['a prefix beyond memory', `${header},prefix_group,prefix_tokens`, '1,0,2000000000,9,a,2000000000', 2],
    ['hashes beyond memory', `${header},block_hashes_16`, '1,0,2000000000,9,1-125000000', 2],
    ['a missing arrival', 'request_id,input_tokens,output_tokens', '1,9,9', 1],
    ['an empty arrival', header, '1,,9,9', 2],
    ['a negative arrival', header, '1,-1.5,9,9', 2],
    ['an endless arrival', header, '1,1e300,9,9', 2],
    ['too many cells', header, '1,0,9,9,9', 2],
    ['quotes', header, '"1",0,9,9', 2],
  ])('%s is refused', async (_, head, row, line) => {
    expect((await errorOf(fileOf([head, row]))).line).toBe(line);
  });

  it('a file that is refused is closed', async () => {
    // Where the system lists them (Linux).
    const openFiles = (): number => (existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0);
    const path = fileOf([header, '1,0,9,x', ...Array.from({ length: 20_000 }, (_, row) => `${row},${row},9,9`)]);
    const before = openFiles();
    for (let attempt = 0; attempt < 20; attempt++) await errorOf(path);
    // Other tests of this process may have opened some.
    expect(openFiles() - before).toBeLessThan(10);
  });

  it('files that are no trace, or are not there, are refused', async () => {
    expect((await errorOf(fileOf(['hello world']))).message).toMatch(/Azure.*BurstGPT/);
    expect((await errorOf(fileOf(['{"a": 1}']))).message).toMatch(/Mooncake/);
    expect((await errorOf(temporaryFile('x', '') + '.absent')).message).toMatch(/no such file/);
  });
});
