import type { ReproductionRow, RowBasis } from '../rows.js';
import { rowOf } from '../rows.js';
import type { ScenarioCase, SuitePart } from '../suite.js';
import { table2, table3, table4, table5, table6 } from './published.js';
import {
  background,
  differences,
  gains,
  netkvCase,
  requests,
  type Scheduler,
  sloShare,
  tbtMs,
  tierPercent,
  transferMs,
  ttftMs,
} from './setup.js';

const compared = ['rr', 'cla', 'netkv'] as const;

/** RAG at a load in %, as in Table 2. At full length also for a quick look: a third of the requests moves the gain by more than its limit. */
function ragCase(scheduler: Scheduler, load: number): ScenarioCase {
  return netkvCase({
    scheduler,
    settings: [requests(8000), ...(load === 100 ? [] : [`workload.rateFactor=${load / 100}`])],
    cost: 2,
  });
}

export function table2Part(): SuitePart {
  const rowsAt = ({ load, ...published }: (typeof table2)[number], runsOf: Parameters<SuitePart['evaluate']>[0]): ReproductionRow[] => {
    const runs = {
      rr: runsOf(ragCase('rr', load)),
      cla: runsOf(ragCase('cla', load)),
      netkv: runsOf(ragCase('netkv', load)),
    };
    const rows = compared.flatMap((name): ReproductionRow[] => {
      const id = `table2.rag.${load}.${name}`;
      const [ttft, tbt, slo, transfer] = published[name];
      const basis: RowBasis = load > 100 ? 'assumed' : name === 'netkv' ? 'prediction' : 'fit';
      return [
        rowOf(`${id}.ttft`, ttft, runs[name].map(ttftMs), 'ms', basis),
        rowOf(`${id}.tbt`, tbt, runs[name].map(tbtMs), 'ms', basis),
        rowOf(`${id}.slo`, slo, runs[name].map(sloShare), 'ratio', basis),
        rowOf(`${id}.transfer`, transfer, runs[name].map(transferMs), 'ms', basis),
        rowOf(
          `${id}.rest`,
          ttft - transfer,
          runs[name].map((run) => ttftMs(run) - transferMs(run)),
          'ms',
          basis,
        ),
      ];
    });
    const gain = (against: 'rr' | 'cla'): ReproductionRow => {
      const gainOf = 100 * (1 - published.netkv[0] / published[against][0]);
      return rowOf(
        `table2.rag.${load}.gain.${against}`,
        gainOf,
        gains(runs[against], runs.netkv, ttftMs),
        'percent',
        load > 100 ? 'assumed' : 'prediction',
      );
    };
    return [...rows, gain('cla'), gain('rr')];
  };
  return {
    id: 'table2',
    title: 'Table 2: RAG under load',
    // Core links and the load weight of CLA* were chosen with an eye on all that grows with load here.
    note: 'rest: TTFT without the transfer. gain: reduction of the mean TTFT.',
    cases: table2.flatMap(({ load }) => compared.map((scheduler) => ragCase(scheduler, load))),
    evaluate: (runsOf) => ({
      rows: table2.flatMap((entry) => rowsAt(entry, runsOf)),
      charts: [
        {
          title: 'Mean TTFT of RAG, ms, by load in %',
          xLabel: 'load, %',
          yLabel: 'TTFT, ms',
          series: compared.flatMap((name) => [
            { name, group: name, kind: 'published' as const, points: table2.map((entry) => ({ x: entry.load, y: entry[name][0] })) },
            {
              name,
              group: name,
              kind: 'emulated' as const,
              points: table2.map(({ load }) => pointOf(load, runsOf(ragCase(name, load)).map(ttftMs))),
            },
          ]),
        },
      ],
    }),
  };
}

/** A point of a figure from one value a seed. */
export function pointOf(x: number, values: readonly number[]): { x: number; y: number; low: number | null; high: number | null } {
  const { emulated, ciLow, ciHigh } = rowOf('', null, values, 'ms');
  return { x, y: emulated as number, low: ciLow, high: ciHigh };
}

export function table3Part(quick: boolean): SuitePart {
  const variants: readonly { readonly name: string; readonly memory: 'kv45' | 'kv151'; readonly netkv: Scheduler }[] = [
    { name: '', memory: 'kv45', netkv: 'netkv' },
    ...(quick
      ? []
      : [
          { name: 'by-request.', memory: 'kv45', netkv: 'by-request' } as const,
          { name: 'kv151.', memory: 'kv151', netkv: 'netkv' } as const,
        ]),
  ];
  const caseOf = (scheduler: Scheduler, tokens: number, memory: string): ScenarioCase =>
    netkvCase({
      scheduler,
      settings: [
        // Near the capacity waits are long and differ much from seed to seed.
        requests(memory === 'kv151' ? 1200 : tokens > 30_000 ? 3000 : 2000),
        `workload.source.inputTokens={kind: constant, tokens: ${tokens}}`,
        ...(memory === 'kv45' ? [] : ['serving[1].kvBlocks=null']),
      ],
    });
  return {
    id: 'table3',
    title: 'Table 3: fixed context',
    note: 'gain: reduction of the mean TTFT; tbt: NetKV less CLA*; slo: NetKV less the other, in percentage points. kv151: the same with the KV memory that four GPUs have. by-request: own transfers count until the request has ended.',
    cases: variants.flatMap(({ memory, netkv }) =>
      table3.flatMap(({ tokens }) => (['rr', 'cla', netkv] as const).map((scheduler) => caseOf(scheduler, tokens, memory))),
    ),
    evaluate: (runsOf) => ({
      rows: variants.flatMap(({ name, memory, netkv }) =>
        table3.flatMap(({ tokens, rr, cla, tbtMs: tbt, sloRr, sloCla }) => {
          const [ofRr, ofCla, ofNetkv] = (['rr', 'cla', netkv] as const).map((scheduler) => runsOf(caseOf(scheduler, tokens, memory))) as [
            ReturnType<typeof runsOf>,
            ReturnType<typeof runsOf>,
            ReturnType<typeof runsOf>,
          ];
          const id = `table3.${name}${tokens}`;
          const basis: RowBasis = netkv === 'by-request' ? 'assumed' : 'prediction';
          const points = (before: ReturnType<typeof runsOf>): number[] =>
            differences(before, ofNetkv, sloShare).map((share) => 100 * share);
          return [
            rowOf(`${id}.gain.rr`, rr, gains(ofRr, ofNetkv, ttftMs), 'percent', basis),
            rowOf(`${id}.gain.cla`, cla, gains(ofCla, ofNetkv, ttftMs), 'percent', basis),
            rowOf(`${id}.tbt`, tbt, differences(ofCla, ofNetkv, tbtMs), 'ms', basis),
            rowOf(`${id}.slo.rr`, sloRr, points(ofRr), 'points', basis),
            rowOf(`${id}.slo.cla`, sloCla, points(ofCla), 'points', basis),
          ];
        }),
      ),
    }),
  };
}

export function table4Part(quick: boolean): SuitePart {
  const steps = ['static', 'self', 'full'] as const;
  const schedulerOf = { cla: 'cla', static: 'static', self: 'self', full: 'netkv' } as const;
  const caseOf = (profile: (typeof table4)[number]['profile'], step: keyof typeof schedulerOf): ScenarioCase =>
    profile === 'rag'
      ? ragCase(schedulerOf[step], 100)
      : netkvCase({ profile, scheduler: schedulerOf[step], settings: [requests(profile === 'long' ? 1500 : 4000, quick)] });
  return {
    id: 'table4',
    title: 'Table 4: what each step of NetKV adds',
    note: 'gain: reduction of the mean TTFT against CLA*.',
    cases: table4.flatMap(({ profile }) => (['cla', ...steps] as const).map((step) => caseOf(profile, step))),
    evaluate: (runsOf) => ({
      rows: table4.flatMap((entry) => {
        const { profile } = entry;
        const cla = runsOf(caseOf(profile, 'cla'));
        return [
          rowOf(`table4.${profile}.cla.ttft`, entry.cla, cla.map(ttftMs), 'ms', profile === 'rag' ? 'fit' : 'assumed'),
          ...steps.flatMap((step) => {
            const runs = runsOf(caseOf(profile, step));
            return [
              rowOf(`table4.${profile}.${step}.ttft`, entry[step], runs.map(ttftMs), 'ms'),
              rowOf(`table4.${profile}.${step}.gain`, 100 * (1 - entry[step] / entry.cla), gains(cla, runs, ttftMs), 'percent'),
            ];
          }),
        ];
      }),
    }),
  };
}

export function table5Part(quick: boolean): SuitePart {
  const entries = quick ? table5.filter(({ gpus, mode }) => mode === 'flow' && gpus <= 256) : table5;
  const caseOf = ({ gpus, mode }: (typeof table5)[number], scheduler: 'cla' | 'netkv'): ScenarioCase => {
    const packet = mode === 'packet';
    const wanted = packet ? 20 + 3 * gpus : Math.max(4000, 6 * gpus);
    return netkvCase({
      file: gpus === 64 ? 'rag.yaml' : `gpus-${gpus}.yaml`,
      scheduler,
      settings: [
        requests(wanted, quick),
        background(10),
        // Chunks are dear: from 20 s on as many requests are measured as 400 leave from 60 s on.
        ...(packet ? ['warmupSeconds=20', 'cluster.fabric.fidelity=chunk', 'cluster.fabric.chunkBytes=4194304'] : []),
      ],
      cost: packet ? 10 : gpus / 64,
    });
  };
  return {
    id: 'table5',
    title: 'Table 5: scale, at 10 % background',
    note: 'packet: chunk fidelity.',
    cases: entries.flatMap((entry) => [caseOf(entry, 'cla'), caseOf(entry, 'netkv')]),
    evaluate: (runsOf) => ({
      rows: entries.flatMap((entry) => {
        const cla = runsOf(caseOf(entry, 'cla'));
        const netkv = runsOf(caseOf(entry, 'netkv'));
        const id = `table5.${entry.gpus}.${entry.mode}`;
        // Larger clusters have four pods because the published gain stays the same from 128 GPUs on.
        const basis: RowBasis = entry.gpus > 64 ? 'assumed' : 'prediction';
        return [
          rowOf(`${id}.gain`, entry.gain, gains(cla, netkv, ttftMs), 'percent', basis),
          rowOf(`${id}.netkv.transfer`, entry.netkv, netkv.map(transferMs), 'ms', basis),
          rowOf(`${id}.cla.transfer`, entry.cla, cla.map(transferMs), 'ms', basis),
        ];
      }),
    }),
  };
}

export function table6Part(quick: boolean): SuitePart {
  const names = quick ? (['cla', 'netkv'] as const) : (['cla', 'netkv', 'by-request'] as const);
  return {
    id: 'table6',
    title: 'Table 6: share of the transfers by tier, RAG at 100 %',
    note: 'Tiers: 0 same server, 1 same rack, 2 same pod, 3 across pods. by-request: as in Table 3.',
    cases: names.map((name) => ragCase(name, 100)),
    evaluate: (runsOf) => ({
      rows: names.flatMap((name) =>
        table6[name === 'cla' ? 'cla' : 'netkv'].map((published, tier) =>
          rowOf(
            `table6.${name}.tier${tier}`,
            published,
            runsOf(ragCase(name, 100)).map((run) => tierPercent(run, tier)),
            'percent',
            name === 'cla' ? 'fit' : name === 'netkv' ? 'prediction' : 'assumed',
          ),
        ),
      ),
    }),
  };
}
