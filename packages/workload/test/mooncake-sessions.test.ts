import {
  expandBlocks,
  type ReadTraceOptions,
  type RequestTable,
  readTrace,
  type SessionTurns,
  sliceRequests,
  traceStatistics,
  writePlainCsv,
} from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AT_ONCE, countsOf, MS, seenBy, simulate } from './client-world.js';
import { temporaryFile, temporaryPath } from './traces.js';

type Fields = Record<string, unknown>;

let files = 0;
const fileOf = (rows: Fields[]): string => temporaryFile(`rows${files++}.jsonl`, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
const read = (rows: Fields[], options: ReadTraceOptions = {}) => readTrace(fileOf(rows), { arrivals: 'as-is', ...options });
const request = (fields: Fields): Fields => ({ input_length: 100, output_length: 10, ...fields });

/** What AIPerf's documentation gives as a session: a first turn, and what the next one adds. */
const chat = (session: string, timestamp: number): Fields[] => [
  { session_id: session, timestamp, input_length: 300, output_length: 40 },
  { session_id: session, delay: 2, input_length: 150, output_length: 20 },
  { session_id: session, delay: 3, input_length: 30, output_length: 10 },
];

/** Engine blocks of 16 that two prompts share from their beginning, after the public rule of a chain. */
function sharedTokens(table: RequestTable, one: number, other: number): number {
  const blocks = [one, other].map((row) => {
    const out = new Float64Array(Math.ceil(table.inputTokens[row]! / 16));
    expandBlocks(table, row, 16, out);
    return out.subarray(0, Math.floor(table.inputTokens[row]! / 16));
  });
  let shared = 0;
  while (shared < blocks[0]!.length && blocks[0]![shared] === blocks[1]![shared]) shared++;
  return shared * 16;
}

describe('Mooncake rows without hashes', () => {
  it('have prompts that nobody shares, and a trace of them has no prefix identity', async () => {
    const rows = [request({ timestamp: 0 }), request({ timestamp: 1, hash_ids: null })];
    const { table } = await read(rows);
    expect(table).toMatchObject({ requestCount: 2, blockTokens: 0 });
    expect(table.blockHashes).toHaveLength(0);
    expect(traceStatistics(table).prefixReuse).toBeNull();
    const mixed = (await read([...rows, request({ timestamp: 2, hash_ids: [7] }), request({ timestamp: 3, hash_ids: [7] })])).table;
    expect(mixed.blockTokens).toBe(512);
    expect([...mixed.blockOffsets]).toEqual([0, 0, 0, 1, 2]);
    expect(traceStatistics(mixed).prefixReuse).toMatchObject({ blocks: 4, distinctBlocks: 3, infiniteShare: 0.25 });
  });
});

describe('Mooncake sessions', () => {
  it('go on from the prompt and the answer before where rows list no hashes, to the token', async () => {
    const { table, report } = await read([...chat('a', 0), ...chat('b', 1)]);
    expect(report).toMatchObject({ delayedTurns: 4, timedTurns: 0, shorterTurns: 0, ignoredFields: [] });
    const turns = (name: string): number[] => [...table.session.keys()].filter((row) => table.sessionNames[table.session[row]!] === name);
    for (const name of ['a', 'b']) {
      const [first, second, third] = turns(name) as [number, number, number];
      expect([first, second, third].map((row) => table.inputTokens[row])).toEqual([300, 300 + 40 + 150, 490 + 20 + 30]);
      // Whole blocks of 16 of the prompt before: 18 of 300 tokens, 30 of 490.
      expect(sharedTokens(table, first, second)).toBe(288);
      expect(sharedTokens(table, second, third)).toBe(480);
      expect([table.delayNs[first], table.delayNs[second], table.delayNs[third]]).toEqual([-1, 2 * MS, 3 * MS]);
    }
    expect(sharedTokens(table, turns('a')[0]!, turns('b')[0]!)).toBe(0);
  });

  it('that list hashes have whole prompts, or with turnPrompts or context_mode what they add', async () => {
    const rows = [
      request({ session_id: 'a', timestamp: 0, input_length: 130, hash_ids: [1, 2, 3] }),
      request({ session_id: 'b', timestamp: 0, input_length: 130, hash_ids: [1, 2, 3] }),
      request({ session_id: 'a', delay: 5, input_length: 100, hash_ids: [8, 9] }),
      request({ session_id: 'b', delay: 6, input_length: 100, hash_ids: [8, 9] }),
    ];
    const whole = await read(rows, { hashTokens: 64 });
    expect([...whole.table.inputTokens]).toEqual([130, 130, 100, 100]);
    expect([...whole.table.blockHashes.subarray(6)]).toEqual([8, 9, 8, 9]);
    expect(whole.report.shorterTurns).toBe(2);
    const added = await read(rows, { hashTokens: 64, turnPrompts: 'added' });
    expect([...added.table.inputTokens]).toEqual([130, 130, 240, 240]);
    expect(added.report.shorterTurns).toBe(0);
    // Of the two whole blocks listed all is shared; behind them the answers differ, so the same new text does not make the same blocks.
    expect(sharedTokens(added.table, 0, 2)).toBe(128);
    expect(sharedTokens(added.table, 2, 3)).toBe(128);
    const marked = rows.map((row) => ({ ...row, context_mode: 'deltas_without_responses' }));
    expect((await read(marked, { hashTokens: 64 })).table).toEqual(added.table);
    await expect(read(marked, { hashTokens: 64, turnPrompts: 'whole' })).rejects.toThrow(/:1: context_mode: .*turnPrompts: whole/);
  });

  it('stand where they may come at the earliest, whatever the order of the lines', async () => {
    const firsts = [request({ session_id: 'a', timestamp: 0 }), request({ timestamp: 7 }), request({ session_id: 'b', timestamp: 10 })];
    const later = [
      request({ session_id: 'a', delay: 4, request_id: 'a2' }),
      request({ session_id: 'a', delay_ms: 4, request_id: 'a3' }),
      request({ session_id: 'a', request_id: 'a4' }),
    ];
    for (const order of [
      [firsts[0]!, ...later, firsts[1]!, firsts[2]!],
      [firsts[0]!, later[0]!, firsts[1]!, later[1]!, later[2]!, firsts[2]!],
    ]) {
      const { table } = await read(order);
      expect([...table.arrivalNs]).toEqual([0, 4, 7, 8, 8, 10].map((ms) => ms * MS));
      expect(table.requestNames.filter((name) => name.startsWith('a'))).toEqual(['a2', 'a3', 'a4']);
      expect([...table.delayNs]).toEqual([-1, 4 * MS, -1, 4 * MS, 0, -1]);
    }
    // Lines that come too late for their moment: as early as the file lets them.
    const { table } = await read([...firsts, ...later]);
    expect([...table.arrivalNs]).toEqual([0, 7, 10, 10, 10, 10].map((ms) => ms * MS));
  });

  it('of any shape keep their order and each turn its place behind the one before', async () => {
    const turn = fc.record({ session: fc.nat(4), gapMs: fc.nat(20), delayMs: fc.nat(30), timed: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 40 }), fc.boolean(), async (turns, spread) => {
        // By hand: a timed turn comes at its time, another the delay after the one before; no earlier than what the lines before it have told.
        let time = 0;
        const earliest = new Map<number, number>();
        const delayed = new Set<number>();
        const expected = new Map<string, number>();
        const rows = turns.map(({ session, gapMs, delayMs, timed }, index) => {
          const before = earliest.get(session);
          const waits = before !== undefined && (!timed || delayed.has(session));
          if (waits) delayed.add(session);
          else time += gapMs;
          earliest.set(session, waits ? before + delayMs : time);
          expected.set(`r${index}`, Math.max(time, earliest.get(session)!));
          return request({ session_id: `s${session}`, request_id: `r${index}`, ...(waits ? { delay: delayMs } : { timestamp: time }) });
        });
        const { table } = await read(rows, spread ? { arrivals: 'spread' } : {});
        expect(table.requestCount).toBe(rows.length);
        const lines = new Map<number, number>();
        for (let row = 0; row < rows.length; row++) {
          if (row > 0) expect(table.arrivalNs[row]).toBeGreaterThanOrEqual(table.arrivalNs[row - 1]!);
          const name = table.requestNames[row]!;
          if (!spread) expect(table.arrivalNs[row]! / MS).toBe(expected.get(name));
          const line = Number(name.slice(1));
          expect(line).toBeGreaterThan(lines.get(table.session[row]!) ?? -1);
          lines.set(table.session[row]!, line);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('read back from a plain CSV as they were', async () => {
    const { table } = await read([...chat('a', 0), request({ timestamp: 3 }), ...chat('b', 4)]);
    const path = temporaryPath('sessions-again.csv');
    await writePlainCsv(path, [table]);
    expect((await readTrace(path)).table).toEqual(table);
  });

  it.each<[string, Fields[], RegExp]>([
    ['a delay without a session', [request({ timestamp: 0, delay: 5 })], /:1: delay: .*of no session/],
    ['a first turn with a delay', [request({ session_id: 'a', delay: 5 })], /:1: delay: .*first of session "a"/],
    ['a first turn without a time', [request({ session_id: 'a' })], /:1: timestamp: found nothing.*closed loop/],
    [
      'a time behind a delay',
      [request({ session_id: 'a', timestamp: 0 }), request({ session_id: 'a', delay: 1 }), request({ session_id: 'a', timestamp: 9 })],
      /:3: delay: .*line 2 has/,
    ],
    ['a negative delay', [request({ session_id: 'a', timestamp: 0 }), request({ session_id: 'a', delay: -1 })], /:2: delay: found -1/],
    ['text', [{ timestamp: 0, text_input: 'Hello', output_length: 5 }], /:1: text_input: is not replayed; expected input_length/],
    ['messages', [{ timestamp: 0, messages: [{ role: 'user' }], output_length: 5 }], /:1: messages: is not replayed/],
    ['dependencies', [request({ timestamp: 0, wait_for: ['r1'] })], /:1: wait_for: is not replayed; expected session_id and delay/],
    ['seconds of Bailian', [request({ timestamp: 61.1, parent_chat_id: -1, chat_id: 1 })], /:1: parent_chat_id: .*seconds/],
    [
      'a mode nobody replays',
      [request({ session_id: 'a', timestamp: 0, context_mode: 'deltas_with_responses' })],
      /:1: context_mode: .*or/,
    ],
    ['a mode of no name', [request({ session_id: 'a', timestamp: 0, context_mode: 'constructor' })], /:1: context_mode: .*or/],
    [
      'a prompt beyond what can be counted',
      [request({ session_id: 'a', timestamp: 0, input_length: 2e9 }), request({ session_id: 'a', delay: 0, input_length: 2e9 })],
      /:1: input_length: .*blocks|:2: input_length with all turns before/,
    ],
  ])('with %s are refused with their line', async (_, rows, message) => {
    await expect(read(rows)).rejects.toThrow(message);
  });

  it('with times of their own are spread only where some are equal', async () => {
    const rows = (...times: number[]) => times.map((timestamp) => request({ timestamp }));
    const { report, table } = await read(rows(0, 500, 501), { arrivals: 'spread' });
    expect(report.spreadTickNs).toBe(0);
    expect([...table.arrivalNs]).toEqual([0, 500 * MS, 501 * MS]);
    expect((await read(rows(0, 500, 500), { arrivals: 'spread' })).report.spreadTickNs).toBe(500 * MS);
  });

  it('say what nothing goes by', async () => {
    const { report } = await read([
      request({ timestamp: 0, priority: 3, tools: [], extra: null }),
      request({ timestamp: 1, policy_class: 'x', constructor: 1 }),
    ]);
    expect(report.ignoredFields).toEqual(['priority', 'policy_class', 'constructor']);
  });
});

describe('a client of turns with delays', () => {
  const options = { blockTokens: 64, submitDelayNs: 1000 };

  it('sends each so long after the answer before, on any number of shards, and all others at their time', async () => {
    const { table } = await read([...chat('a', 0), request({ timestamp: 3 }), ...chat('b', 4)]);
    const runs = [1, 2].map((shards) => {
      const run = simulate({ options: { ...options, table, clients: 2 }, frontend: AT_ONCE }, shards);
      run.runUntil();
      return run;
    });
    expect(runs[1]!.fingerprint).toBe(runs[0]!.fingerprint);
    const seen = seenBy(runs[0]!);
    const atMs = (name: string): number[] =>
      seen.filter(({ request: row }) => table.sessionNames[table.session[row]!] === name).map(({ atNs }) => (atNs - 1000) / MS);
    // 5.002 ms to the answer, then the delay.
    expect(atMs('a')).toEqual([0, 7.002, 15.004]);
    expect(atMs('b')).toEqual([4, 11.002, 19.004]);
    expect(seen.find(({ request: row }) => table.session[row] === -1)!.atNs).toBe(3 * MS + 1000);
    expect([0, 1].reduce((sum, client) => sum + countsOf(runs[0]!, client).completed, 0)).toBe(7);
  });

  it('puts think times in the place of delays, and lets timed turns wait for the answer, where sessions are set so', async () => {
    const timed = [
      request({ session_id: 'c', timestamp: 0 }),
      request({ session_id: 'c', timestamp: 1 }),
      request({ session_id: 'c', timestamp: 90 }),
    ];
    const { table } = await read([...chat('a', 0), ...timed]);
    const sent = (sessions?: SessionTurns): Record<string, number[]> => {
      const run = simulate({ options: { ...options, table, ...(sessions === undefined ? {} : { sessions }) }, frontend: AT_ONCE });
      run.runUntil();
      const times: Record<string, number[]> = { a: [], c: [] };
      for (const { request: row, atNs } of seenBy(run)) times[table.sessionNames[table.session[row]!]!]!.push((atNs - 1000) / MS);
      return times;
    };
    const turns = { meanThinkMs: 20, think: 'constant', afterFailure: 'continue' } as const;
    expect(sent()).toEqual({ a: [0, 7.002, 15.004], c: [0, 1, 90] });
    expect(sent({ ...turns, next: 'arrival' })).toEqual({ a: [0, 7.002, 15.004], c: [0, 5.002, 90] });
    expect(sent({ ...turns, next: 'think' })).toEqual({ a: [0, 25.002, 50.004], c: [0, 25.002, 50.004] });
  });

  it('lets one whose session has lost its beginning come by itself', async () => {
    const { table } = await read([...chat('a', 0), request({ timestamp: 9 })]);
    const slice = sliceRequests(table, { fromNs: 1, minInputTokens: 1, maxInputTokens: 1e6 });
    const run = simulate({ options: { ...options, table: slice }, frontend: AT_ONCE });
    run.runUntil();
    expect(countsOf(run)).toMatchObject({ submitted: 3, completed: 3 });
  });

  it('cannot be one that takes requests in its own order', async () => {
    const { table } = await read(chat('a', 0));
    const loop = { style: 'workers', inFlight: 1, meanThinkMs: 0, think: 'constant', taskLimit: 0 } as const;
    expect(() => simulate({ options: { ...options, table, loop }, frontend: AT_ONCE })).toThrow(/delay after an answer/);
  });
});
