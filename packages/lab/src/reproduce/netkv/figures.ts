import { rowOf } from '../rows.js';
import type { Chart, ChartSeries, RunsOf, ScenarioCase, SuitePart } from '../suite.js';
import { decisionTimesMs } from './decision-time.js';
import { backgrounds, figure1, figure3, figure5, oversubscriptions, type Profile, telemetrySeconds } from './published.js';
import { background, gains, netkvCase, requests, ttftMs } from './setup.js';
import { pointOf } from './tables.js';

const profiles = ['chatbot', 'rag', 'long'] as const;

/**
 * What becomes slower with oversubscription, from the links of 4:1: every link between servers, so that the speeds of the tiers are 50, 25 and 12.5 GB/s over
 * the ratio (the first the 400 Gb/s NIC of an H100), or the core links alone, slower or fewer. The published rows ask for the first (docs/reproduce.md): assumed.
 */
const rules = {
  'every-tier': (ratio: number): string[] => [
    `cluster.topology.bytesPerSecond.nic=${50e9 / ratio}`,
    `cluster.topology.bytesPerSecond.leafUplink=${25e9 / ratio}`,
    `cluster.topology.oversubscription.core=${ratio}`,
  ],
  'slower-links': (ratio: number): string[] => [`cluster.topology.oversubscription.core=${ratio}`],
  'fewer-links': (ratio: number): string[] => [
    'cluster.topology.uplinksPerPod=96',
    'cluster.topology.bytesPerSecond.coreUplink=3.125e+9',
    `cluster.topology.oversubscription={core: ${ratio}, by: fewer-links}`,
  ],
} as const;

type Rule = keyof typeof rules;

/** One number of Figure 1. */
interface Cell {
  readonly profile: Profile;
  readonly ratio: number;
  readonly percent: number;
  readonly rule: Rule;
}

export function figure1Part(quick: boolean): SuitePart {
  const caseOf = ({ profile, ratio, percent, rule }: Cell, scheduler: 'cla' | 'netkv'): ScenarioCase =>
    netkvCase({
      profile,
      scheduler,
      settings: [
        requests(profile === 'long' ? 800 : 1500),
        ...(percent === 20 ? [] : [background(percent)]),
        ...(ratio === 4 ? [] : rules[rule](ratio)),
      ],
    });
  const main = profiles.flatMap((profile) =>
    oversubscriptions.flatMap((ratio) =>
      (quick ? [20] : backgrounds).map((percent): Cell => ({ profile, ratio, percent, rule: 'every-tier' })),
    ),
  );
  const physical = quick
    ? []
    : (['slower-links', 'fewer-links'] as const).flatMap((rule) =>
        oversubscriptions.filter((ratio) => ratio !== 4).map((ratio): Cell => ({ profile: 'rag', ratio, percent: 20, rule })),
      );
  const gainsOf = (cell: Cell, runsOf: RunsOf): number[] => gains(runsOf(caseOf(cell, 'cla')), runsOf(caseOf(cell, 'netkv')), ttftMs);
  return {
    id: 'figure1',
    title: 'Figure 1: gain in mean TTFT against CLA*, by oversubscription and background',
    note: 'Rows figure1.<profile>.<oversubscription>.<background>. Off 4:1 all links between servers get slower or faster together (docs/reproduce.md); core links alone stand below as figure1.<rule>.',
    cases: [...main, ...physical].flatMap((cell) => [caseOf(cell, 'cla'), caseOf(cell, 'netkv')]),
    evaluate: (runsOf) => ({
      rows: [...main, ...physical].map((cell) => {
        const { profile, ratio, percent, rule } = cell;
        const id = `figure1.${rule === 'every-tier' ? '' : `${rule}.`}${profile}.${ratio}.${percent}`;
        const basis = ratio === 4 || rule !== 'every-tier' ? 'prediction' : 'assumed';
        return rowOf(id, publishedGain(cell), gainsOf(cell, runsOf), 'percent', basis);
      }),
      charts: quick ? [] : profiles.map((profile) => figure1Chart(profile, main, (cell) => gainsOf(cell, runsOf))),
    }),
  };
}

function publishedGain({ profile, ratio, percent }: Cell): number {
  return figure1[profile][oversubscriptions.indexOf(ratio as 1)]?.[backgrounds.indexOf(percent as 0)] as number;
}

function figure1Chart(profile: Profile, cells: readonly Cell[], gainsOf: (cell: Cell) => number[]): Chart {
  return {
    title: `Figure 1, ${profile}: gain in mean TTFT against CLA*, %`,
    xLabel: 'background, % of the links',
    yLabel: 'gain, %',
    series: oversubscriptions.flatMap((ratio): ChartSeries[] => {
      const line = cells.filter((cell) => cell.profile === profile && cell.ratio === ratio);
      const name = `${ratio}:1`;
      return [
        { name, group: name, kind: 'published', points: line.map((cell) => ({ x: cell.percent, y: publishedGain(cell) })) },
        { name, group: name, kind: 'emulated', points: line.map((cell) => pointOf(cell.percent, gainsOf(cell))) },
      ];
    }),
  };
}

export function figure2Part(quick: boolean): SuitePart {
  const caseOf = (seconds: number): ScenarioCase =>
    netkvCase({
      scheduler: 'netkv',
      settings: [
        requests(2500, quick),
        background(10),
        ...(seconds === 1 ? [] : [`router.oracle={policy: periodic, parameters: {seconds: ${seconds}, congestion: mean}}`]),
      ],
    });
  const changes = (seconds: number, runsOf: RunsOf): number[] =>
    gains(runsOf(caseOf(1)), runsOf(caseOf(seconds)), ttftMs).map((gain) => -gain);
  return {
    id: 'figure2',
    title: 'Figure 2: age of the telemetry, RAG at 10 % background',
    note: 'Mean TTFT of NetKV against that with telemetry of 1 s, %. The published curves are flat.',
    cases: telemetrySeconds.map(caseOf),
    evaluate: (runsOf) => ({
      rows: telemetrySeconds.map((seconds) => rowOf(`figure2.rag.${seconds}`, 0, changes(seconds, runsOf), 'percent')),
      charts: [
        {
          title: 'Figure 2: mean TTFT of NetKV, ms, by the period of the telemetry',
          xLabel: 'period, s',
          yLabel: 'TTFT, ms',
          xScale: 'log',
          series: [
            {
              name: 'netkv',
              group: 'netkv',
              kind: 'emulated',
              points: telemetrySeconds.map((seconds) => pointOf(seconds, runsOf(caseOf(seconds)).map(ttftMs))),
            },
          ],
        },
      ],
    }),
  };
}

export function figure3Part(quick: boolean): SuitePart {
  const names = ['cla', 'netkv'] as const;
  const caseOf = (scheduler: (typeof names)[number], share: number): ScenarioCase =>
    netkvCase({ scheduler, settings: [requests(4000, quick), `workload.source.prefix.share=${share}`], cost: 2 });
  const p99 = (scheduler: (typeof names)[number], share: number, runsOf: RunsOf): number[] =>
    runsOf(caseOf(scheduler, share)).map(({ summary }) => summary.ttftMs?.p99 ?? Number.NaN);
  const published = (name: (typeof names)[number], share: number): number | null =>
    (figure3[name] as Record<number, number>)[share] ?? null;
  return {
    id: 'figure3',
    title: 'Figure 3: P99 TTFT by the share of common prefixes, RAG',
    note: 'Of the published curves only the ends can be read.',
    cases: names.flatMap((name) => figure3.shares.map((share) => caseOf(name, share))),
    evaluate: (runsOf) => ({
      rows: names.flatMap((name) =>
        figure3.shares.map((share) => rowOf(`figure3.${name}.${share}`, published(name, share), p99(name, share, runsOf), 'ms')),
      ),
      charts: [
        {
          title: 'Figure 3: P99 TTFT, ms',
          xLabel: 'share of requests with a common prefix',
          yLabel: 'P99 TTFT, ms',
          series: names.flatMap((name): ChartSeries[] => [
            {
              name,
              group: name,
              kind: 'published',
              points: figure3.shares.flatMap((share) =>
                published(name, share) === null ? [] : [{ x: share, y: published(name, share) as number }],
              ),
            },
            { name, group: name, kind: 'emulated', points: figure3.shares.map((share) => pointOf(share, p99(name, share, runsOf))) },
          ]),
        },
      ],
    }),
  };
}

export function figure5Part(quick: boolean): SuitePart {
  const names = ['cla', 'netkv'] as const;
  return {
    id: 'figure5',
    title: 'Figure 5: wall time of one decision',
    note: 'Measured on this machine over the 12 decode groups of each 64 GPUs, the only numbers here that differ from run to run. Published: at 1,024 GPUs.',
    cases: [],
    evaluate: () => ({
      rows: names.flatMap((name) =>
        figure5.gpus.map((gpus) =>
          rowOf(
            `figure5.${gpus}.${name}`,
            gpus === 1024 ? figure5[name] : null,
            decisionTimesMs(name, (12 * gpus) / 64, quick ? 2 : 5),
            'ms',
          ),
        ),
      ),
    }),
  };
}
