import type { Measurement } from '../../measure-scenario.js';
import type { Chart } from '../../reproduce/suite.js';
import { type StudyCell, signed, table } from '../study.js';
import { changes, mean, nearPercent, runsAt, type StudyPart, tasksOf, transferMs, ttftMs } from './part.js';

interface Kind {
  readonly name: string;
  readonly settings: readonly string[];
  /** Age of what it says, s, where that is what varies. */
  readonly periodSeconds?: number;
  /** Left out of quick runs. */
  readonly full?: boolean;
}

const netkv = 'router.decode={ policy: netkv }';
const told = (oracle: string): string[] => [netkv, `router.oracle={ ${oracle} }`];
const periodic = (seconds: number): Kind => ({
  name: `periodic, ${seconds} s`,
  settings: told(`policy: periodic, parameters: { seconds: ${seconds} }`),
  periodSeconds: seconds,
});

/** The first is what the others are measured against. */
function kinds(failsAtSeconds: number): readonly Kind[] {
  const failing = (more: string, health = ''): string[] =>
    told(`policy: failing, parameters: { seconds: 1, fromSeconds: ${failsAtSeconds}, ${more} }${health}`);
  return [
    { name: 'exact', settings: told('policy: exact') },
    { name: 'exact, busiest link', settings: told('policy: exact, parameters: { congestion: busiest }') },
    { name: 'exact, by path', settings: ['router.decode={ policy: netkv-path }', 'router.oracle={ policy: exact }'] },
    { name: 'static tiers', settings: told('policy: static-tier') },
    periodic(0.1),
    periodic(1),
    { ...periodic(10), full: true },
    periodic(60),
    { name: 'trend, 10 s', settings: told('policy: trend, parameters: { seconds: 10 }'), full: true },
    { name: 'noisy, +-0.2', settings: told('policy: noisy, parameters: { error: 0.2 }') },
    { name: 'noisy, +-0.5', settings: told('policy: noisy, parameters: { error: 0.5 }'), full: true },
    { name: 'noisy, +-1', settings: told('policy: noisy, parameters: { error: 1 }') },
    { name: 'probes, 10 s', settings: told('policy: rtt-median') },
    { name: 'probes, 60 s', settings: told('policy: rtt-median, parameters: { seconds: 60 }'), full: true },
    { name: 'active, 1 s', settings: told('policy: active, parameters: { seconds: 1 }') },
    { name: 'active, 10 s', settings: told('policy: active') },
    { name: 'active, 60 s', settings: told('policy: active, parameters: { seconds: 60 }'), full: true },
    { name: 'down, last word believed', settings: failing('mode: down') },
    { name: 'down, fallback after 3 s', settings: failing('mode: down', ', health: { timeoutMs: 3000 }') },
    { name: 'down, static tiers after 3 s', settings: failing('mode: down', ', health: { timeoutMs: 3000, fallback: static-tiers }') },
    { name: 'slow by 30 s', settings: failing('mode: slow, slowSeconds: 30'), full: true },
    { name: 'lying', settings: failing('mode: lying') },
    { name: 'lying, fallback at a ratio of 1.5', settings: failing('mode: lying', ', health: { worstRatio: 1.5 }') },
    {
      name: 'lying, static tiers at a ratio of 1.5',
      settings: failing('mode: lying', ', health: { worstRatio: 1.5, fallback: static-tiers }'),
    },
    { name: 'no oracle: cla', settings: ['router.decode={ policy: cla }'] },
    { name: 'no oracle: round-robin', settings: ['router.decode={ policy: round-robin }'] },
  ];
}

/** Flows from the other pod into the servers of the near decode engines; they come and go. */
function storms(): string {
  const flows = Array.from({ length: 24 }, (_, index) => {
    const from = `pod1/rack${index % 2}/node${(index >> 1) % 2}/gpu${index % 8}`;
    const to = `pod0/rack1/node${index % 2}/gpu${(index >> 1) % 8}`;
    return `{ from: ${from}, to: ${to}, bytesPerSecond: 6.25e+9, meanOnMs: 8000, meanOffMs: 8000 }`;
  });
  return `cluster.fabric.onOff=[${flows.join(', ')}]`;
}

const weathers = [
  { name: 'calm', settings: [] },
  { name: 'storms', settings: [storms()] },
] as const;

/** What an error, age, probe interval or failure of the oracle costs. */
export function kindsPart(quick: boolean): StudyPart {
  const seeds = quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
  const requests = quick ? 300 : 1200;
  const shown = kinds(requests / 2.6 / 3).filter(({ full }) => !(quick && full === true));
  const cases = weathers.flatMap((weather) =>
    shown.map((kind) => ({ settings: [`workload.requests=${requests}`, ...weather.settings, ...kind.settings] })),
  );
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const at = (weather: number, kind: number): readonly Measurement[] => runsAt(runs, weather * shown.length + kind, seeds);
      const costs = weathers.map((_, weather) => shown.map((_, kind) => changes(at(weather, 0), at(weather, kind))));
      const rows = weathers.flatMap(({ name }, weather) =>
        shown.map((kind, place): StudyCell[] => {
          const found = at(weather, place);
          const cost = costs[weather]![place]!;
          return [
            name,
            kind.name,
            mean(found.map(ttftMs)),
            place === 0 ? 0 : cost.mean,
            place === 0 ? null : cost.halfWidth,
            mean(found.map(({ summary }) => summary.ttftMs?.p99 ?? Number.NaN)),
            mean(found.map(transferMs)),
            mean(found.map(nearPercent)),
            mean(found.map(({ oracleFallbackSeconds }) => oracleFallbackSeconds)),
          ];
        }),
      );
      return {
        table: table(
          'kinds',
          'What the oracle knows, and what it costs not to know',
          'Decode router netkv. Cost: mean TTFT against exact, same requests, +- 95 % over seeds. Calm: 20 % constant background. Storms: also 24 flows of up to 50 Gb/s into the ' +
            'servers of the near decode engines, on and off for 8 s on average. Failures begin after a third of the run.',
          ['network', 'oracle', 'TTFT (ms)', 'cost (%)', '+-', 'TTFT P99 (ms)', 'transfer (ms)', 'in the pod (%)', 'fallback (s)'],
          rows,
          [ageChart(shown, costs)],
        ),
        sentence: sentenceOf(shown, costs),
      };
    },
  };
}

type Costs = readonly (readonly ReturnType<typeof changes>[])[];

function ageChart(shown: readonly Kind[], costs: Costs): Chart {
  return {
    title: 'Cost of age: mean TTFT against exact',
    xLabel: 'period of the counters (s)',
    yLabel: '%',
    xScale: 'log',
    series: weathers.map(({ name }, weather) => ({
      name,
      group: name,
      kind: 'emulated' as const,
      points: shown.flatMap(({ periodSeconds }, place) => {
        const { mean: y, low, high } = costs[weather]![place]!;
        return periodSeconds === undefined ? [] : [{ x: periodSeconds, y, low, high }];
      }),
    })),
  };
}

function sentenceOf(shown: readonly Kind[], costs: Costs): string {
  const parts = weathers.map(({ name }, weather) => {
    const cost = (of: string): string => signed(costs[weather]![shown.findIndex((kind) => kind.name === of)]!.mean);
    return (
      `${name}, against the exact oracle: no oracle (cla) costs ${cost('no oracle: cla')} of mean TTFT, static tiers ${cost('static tiers')}, counters of 60 s ${cost('periodic, 60 s')}, ` +
      `errors of up to 1 ${cost('noisy, +-1')}, probes each 10 s ${cost('probes, 10 s')}, an outage ${cost('down, last word believed')} and with fallback to least load ` +
      `${cost('down, fallback after 3 s')}, lies ${cost('lying')}; oracles whose interval leaves out 0: ${certain(shown, costs[weather]!)}`
    );
  });
  return `In ${parts.join('. In ')}.`;
}

/** The oracles whose interval leaves out 0, dearest first. */
function certain(shown: readonly Kind[], costs: Costs[number]): string {
  const found = shown
    .map(({ name }, place) => ({ name, cost: costs[place]! }))
    .filter(({ name, cost: { low, high } }) => !name.startsWith('no oracle') && low !== null && high !== null && low * high > 0)
    .sort((a, b) => b.cost.mean - a.cost.mean);
  return found.length === 0 ? 'none' : found.map(({ name, cost }) => `"${name}" ${signed(cost.mean)}`).join(', ');
}
