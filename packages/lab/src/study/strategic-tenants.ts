import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Measurement, MeasureTask } from '../measure-scenario.js';
import { type StudyCell, type StudyContext, type StudyTable, said, table } from './study.js';

const player = 'player';
const honest = ['a', 'b', 'c'];

/** Two defences, and none. Both need the queue at the frontend: engines keep what they were sent. */
const defences = [
  { name: 'none', settings: [] },
  { name: 'fair queueing by tokens', settings: ['router.queue={ order: fair, maxEnginePrefillTokens: 12000 }'] },
  {
    name: 'priced admission',
    settings: ['router.admission={ policy: priced, parameters: { tokensPerSecond: 14000, freeTokens: 6000, burstSeconds: 5 } }'],
  },
] as const;

/** One of the tenants plays against the others: what it gains, what they lose, and what a defence costs when nobody plays. */
export async function strategicTables(
  context: StudyContext,
  file: string,
): Promise<{ readonly tables: readonly StudyTable[]; readonly finding: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'braess-study-'));
  try {
    const hogging = await measureHogging(context, file, folder);
    const warmUps = await measureWarmUps(context, file, folder);
    const timing = await measureTiming(context, file, folder);
    return {
      tables: [hogging.table, warmUps.table, timing.table],
      finding: [hogging, warmUps, timing].map(({ finding }) => finding).join(' '),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Row {
  readonly atSeconds: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly tenant: string;
  readonly group: string;
  readonly prefixTokens: number;
}

/** Writes a plain trace; returns the setting that reads it. */
function writeTrace(folder: string, name: string, rows: readonly Row[]): string {
  const sorted = [...rows].sort((a, b) => a.atSeconds - b.atSeconds);
  const lines = sorted.map((row) =>
    [row.atSeconds.toFixed(6), row.inputTokens, row.outputTokens, row.tenant, row.group, row.prefixTokens].join(','),
  );
  const path = join(folder, name);
  writeFileSync(path, `arrival_s,input_tokens,output_tokens,tenant,prefix_group,prefix_tokens\n${lines.join('\n')}\n`);
  return `workload.source={ kind: trace, file: ${JSON.stringify(path)}, prefixBlockTokens: 64 }`;
}

/** The 32-bit linear congruence of Numerical Recipes: the same requests in every run of the study. */
function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 4_294_967_296;
  };
}

const share = (run: Measurement, tenant: string): number => run.tenants[tenant]!.completed;
const ttft = (run: Measurement, tenant: string): number => run.tenants[tenant]!.ttftMs?.mean ?? Number.NaN;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const others = (run: Measurement, value: (run: Measurement, tenant: string) => number): number =>
  mean(honest.map((tenant) => value(run, tenant)));

/** Requests of the four tenants in turn, each with a prompt of its own; the tenant that comes first is tenant 0. */
function rowsInTurn(count: number, outputTokens: number, inputTokens: () => number): Row[] {
  return Array.from({ length: count }, (_, index) => {
    const tenant = [player, ...honest][index % 4]!;
    return { atSeconds: index * 1e-3, inputTokens: inputTokens(), outputTokens, tenant, group: `${tenant}-${index}`, prefixTokens: 0 };
  });
}

/** Four tenants in closed loops for a minute; the player keeps four times as many prompts in flight and so holds the prefill slots. */
async function measureHogging(context: StudyContext, file: string, folder: string) {
  const seconds = context.quick ? 20 : 60;
  const draw = uniform(7);
  // Enough requests that nobody runs out.
  const rows = rowsInTurn(seconds * 320, 64, () => 1000 + Math.floor(2000 * draw()));
  const trace = writeTrace(folder, 'hogging.csv', rows);
  const caseOf = (inFlight: number, defence: (typeof defences)[number]): MeasureTask => ({
    file,
    settings: [
      trace,
      `untilSeconds=${seconds}`,
      'workload.requests=null',
      'router.frontends=1',
      'serving[0].count=2',
      ...defence.settings,
      `workload.client={ kind: policy, policy: tenant-loops, parameters: { loops: [{ inFlight: ${inFlight} }, { inFlight: 16 }] } }`,
    ],
  });
  const cases = defences.flatMap((defence) => [16, 64].map((inFlight) => ({ defence, inFlight })));
  const runs = await context.measureAll(cases.map(({ defence, inFlight }) => caseOf(inFlight, defence)));
  const base = runs[0]!;
  const rowOf = (index: number): StudyCell[] => {
    const { defence, inFlight } = cases[index]!;
    const run = runs[index]!;
    const calm = runs[index - (index % 2)]!;
    return [
      defence.name,
      inFlight === 16 ? 'honest' : 'hogs',
      share(run, player) / seconds,
      others(run, share) / seconds,
      ttft(run, player),
      others(run, ttft),
      index % 2 === 0 ? null : 100 * (share(run, player) / share(calm, player) - 1),
      index % 2 === 0 ? null : 100 * (others(run, share) / others(calm, share) - 1),
      run.summary.requestsPerSecond,
      100 * (1 - run.summary.requestsPerSecond / base.summary.requestsPerSecond),
    ];
  };
  const found = table(
    'hogging',
    'A tenant that hogs the prefill slots',
    'Four tenants with 16 prompts in flight each; the player keeps 64. Gain and loss: of completed requests against the same defence with everybody honest. Price: throughput lost against no defence and everybody honest.',
    [
      'defence',
      'player',
      'its requests/s',
      'others, each',
      'its TTFT (ms)',
      "others' TTFT (ms)",
      'its gain (%)',
      "others' loss (%)",
      'requests/s',
      'price (%)',
    ],
    cases.map((_, index) => rowOf(index)),
  );
  const gain = (index: number): string => `${said(rowOf(index)[6] as number, 0)} % (the others ${said(rowOf(index)[7] as number, 0)} %)`;
  return {
    table: found,
    finding: `A tenant that keeps four times as many prompts in flight gains ${gain(1)}; with fair queueing by tokens ${gain(3)}, at a price of ${said(rowOf(2)[9] as number, 1)} % of throughput when all are honest; with priced admission ${gain(5)}, at a price of ${said(rowOf(4)[9] as number, 1)} %.`,
  };
}

/** Mean time between two requests of a tenant: prefill busy for a third, or for most of the time. */
const warmLoads = [
  { name: 'light', gapSeconds: 0.4 },
  { name: 'heavy', gapSeconds: 0.16 },
];
const warmUpsPerSecond = 6;

/** Open arrivals over twelve prefixes a tenant; the player also asks for one token of each of its prefixes in turn. */
function warmUpRows(seconds: number, gapSeconds: number, warmsUp: boolean): Row[] {
  const draw = uniform(11);
  const rows: Row[] = [];
  const prefixTokens = 4096;
  for (const tenant of [player, ...honest])
    for (let at = tenant === player ? 0 : draw(); at < seconds; at += 2 * draw() * gapSeconds) {
      const group = `${tenant}-${Math.floor(draw() * 12)}`;
      rows.push({ atSeconds: at, inputTokens: prefixTokens + 256, outputTokens: 64, tenant, group, prefixTokens });
    }
  if (!warmsUp) return rows;
  for (let warm = 0; warm < seconds * warmUpsPerSecond; warm++) {
    const group = `${player}-${warm % 12}`;
    rows.push({ atSeconds: warm / warmUpsPerSecond, inputTokens: prefixTokens + 1, outputTokens: 1, tenant: player, group, prefixTokens });
  }
  return rows;
}

/** Prefixes that do not all fit; the player keeps its own warm with false requests. */
async function measureWarmUps(context: StudyContext, file: string, folder: string) {
  const seconds = context.quick ? 30 : 90;
  const cases = warmLoads.flatMap((load) => defences.flatMap((defence) => [false, true].map((warmsUp) => ({ load, defence, warmsUp }))));
  const traces = new Map(
    warmLoads.flatMap(({ name, gapSeconds }) =>
      [false, true].map((warmsUp) => {
        const key = `${name}-${warmsUp}`;
        return [key, writeTrace(folder, `warm-${key}.csv`, warmUpRows(seconds, gapSeconds, warmsUp))] as const;
      }),
    ),
  );
  const runs = await context.measureAll(
    cases.map(({ load, defence, warmsUp }) => ({
      file,
      // Not the warm-ups themselves.
      tenantOutputTokens: 2,
      settings: [
        traces.get(`${load.name}-${warmsUp}`)!,
        'workload.requests=null',
        'workload.client={ kind: open-loop }',
        'router.frontends=1',
        'serving[0].count=2',
        // Each of the two prefill engines holds 20 of the 48 prefixes.
        'serving[0].kvBlocks=1300',
        ...defence.settings,
      ],
    })),
  );
  const rowOf = (index: number): StudyCell[] => {
    const { load, defence, warmsUp } = cases[index]!;
    const run = runs[index]!;
    const calm = runs[index - (index % 2)]!;
    const base = runs[cases.findIndex((each) => each.load === load)]!;
    const hit = (tenant: string): number => 100 * run.tenants[tenant]!.hitRates.total;
    return [
      load.name,
      defence.name,
      warmsUp ? 'warms up' : 'honest',
      hit(player),
      mean(honest.map(hit)),
      ttft(run, player),
      others(run, ttft),
      warmsUp ? 100 * (ttft(run, player) / ttft(calm, player) - 1) : null,
      warmsUp ? 100 * (others(run, ttft) / others(calm, ttft) - 1) : null,
      run.summary.rejected,
      100 * (1 - others(run, share) / others(base, share)),
    ];
  };
  const rows = cases.map((_, index) => rowOf(index));
  const change = (load: string, defence: string): string => {
    const row = rows.find((each) => each[0] === load && each[1] === defence && each[2] === 'warms up')!;
    return `${said(row[7] as number, 0)} and ${said(row[8] as number, 0)} %`;
  };
  return {
    table: warmUpTable(rows),
    finding: `False warm-ups change the mean TTFT of the player and of the others by ${change('light', defences[0].name)} under light load, by ${change('heavy', defences[0].name)} under heavy load; there, with fair queueing, by ${change('heavy', defences[1].name)}, with priced admission by ${change('heavy', defences[2].name)}.`,
  };
}

function warmUpTable(rows: readonly (readonly StudyCell[])[]): StudyTable {
  return table(
    'warm-ups',
    'A tenant that keeps its prefixes warm with false requests',
    `Four tenants with 12 prefixes of 4,096 tokens each, more than HBM holds; the player asks for one token of its prefixes in turn, ${warmUpsPerSecond} times a second (these requests are left out). Changes of the mean TTFT against the same load and defence with everybody honest; price: requests of the others that were not completed, against no defence.`,
    [
      'load',
      'defence',
      'player',
      'its hits (%)',
      "others' hits (%)",
      'its TTFT (ms)',
      "others' TTFT (ms)",
      'its TTFT (%)',
      "others' TTFT (%)",
      'rejected',
      'price (%)',
    ],
    rows,
  );
}

/** One request at a time and tenant; the player sends a fixed time after its last answer instead of a random one with the same mean. */
async function measureTiming(context: StudyContext, file: string, folder: string) {
  const seconds = context.quick ? 30 : 120;
  const draw = uniform(13);
  const rows = rowsInTurn(seconds * 100, 2, () => 6000 + Math.floor(4000 * draw()));
  const trace = writeTrace(folder, 'timing.csv', rows);
  const pauses = context.quick ? [0, 100] : [0, 25, 50, 100, 200];
  const cases = pauses.flatMap((pauseMs) => (['random', 'fixed'] as const).map((timing) => ({ pauseMs, timing })));
  const runs = await context.measureAll(
    cases.map(({ pauseMs, timing }) => ({
      file,
      settings: [
        trace,
        `untilSeconds=${seconds}`,
        'workload.requests=null',
        'router.frontends=1',
        'serving[0].count=1',
        `workload.client={ kind: policy, policy: tenant-loops, parameters: { loops: [{ inFlight: 1, pauseMs: ${pauseMs}, timing: ${timing} }, { inFlight: 1, pauseMs: ${pauseMs} }] } }`,
      ],
    })),
  );
  const found = table(
    'timing',
    'A tenant that times its requests against the batches',
    'Four tenants, one prompt of 6,000 to 10,000 tokens each at a time, one prefill engine. Everybody pauses for the same mean time; the player at random, or always exactly so long after its last answer.',
    ['pause (ms)', 'player', 'its TTFT (ms)', "others' TTFT (ms)", 'its gain (%)', "others' loss (%)"],
    cases.map(({ pauseMs, timing }, index) => {
      const run = runs[index]!;
      const calm = runs[index - (index % 2)]!;
      const changes =
        index % 2 === 0
          ? [null, null]
          : [100 * (1 - ttft(run, player) / ttft(calm, player)), 100 * (others(run, ttft) / others(calm, ttft) - 1)];
      return [pauseMs, timing === 'random' ? 'at random' : 'timed', ttft(run, player), others(run, ttft), ...changes];
    }),
  );
  const timed = found.rows.filter((row) => row[4] !== null);
  const best = timed.reduce((a, b) => ((b[4] as number) > (a[4] as number) ? b : a));
  return {
    table: found,
    finding: `Timing against the batches gains at most ${said(best[4] as number, 1)} % of the player's TTFT (pause ${best[0]} ms) at ${said(best[5] as number, 1)} % for the others.`,
  };
}
