import { catalogueOf, readScenario } from '@braess/cluster';
import type { Measurement, RequestColumn } from '../../measure-scenario.js';
import { meanInterval } from '../../reproduce/rows.js';
import { type StudyCell, said, table } from '../study.js';
import { changes, mean, oracleFile, reach, runsAt, type StudyPart, tasksOf, transferMs, ttftMs } from './part.js';

const columns: readonly RequestColumn[] = [
  'arrivalNs',
  'prefillStartNs',
  'prefillEndNs',
  'transferStartNs',
  'transferEndNs',
  'firstTokenNs',
];

const oracle = 'router.oracle={ policy: periodic, parameters: { seconds: 1 } }';
const routers = {
  cla: ['router.decode={ policy: cla }'],
  netkv: ['router.decode={ policy: netkv }', oracle],
  'zone-first': ['router.decode={ policy: zone-first }', oracle],
} as const;
type Router = keyof typeof routers;

interface Variant {
  readonly name: string;
  readonly settings: readonly string[];
  readonly routers: readonly Router[];
}

const zones = (milliseconds: number): Variant => ({
  name: `two zones, ${milliseconds} ms`,
  settings: [
    'cluster.pods=1',
    `cluster.topology={ kind: multi-zone, zones: 2, gatewaysPerZone: 4, nicsPerServer: 2, uplinksPerLeaf: 12, bytesPerSecond: { nic: 12.5e+9, leafUplink: 6.25e+9, gateway: 12.5e+9, interZone: 3.125e+9 }, latencyNs: { interZone: ${milliseconds * 1e6} } }`,
    'cluster.fabric.background=[{ link: leaf-uplink, share: 0.2 }, { link: inter-zone, share: 0.2 }]',
  ],
  routers: ['cla', 'netkv', 'zone-first'],
});

const both: readonly Router[] = ['cla', 'netkv'];
const variants: readonly Variant[] = [
  { name: 'as is', settings: [], routers: both },
  { name: 'KV in 8 bit', settings: ['model.kvPrecision=fp8'], routers: both },
  {
    name: 'TP8',
    settings: ['serving[0].count=2', 'serving[1].count=6', 'serving[0].tensorParallel=8', 'serving[1].tensorParallel=8'],
    routers: both,
  },
  zones(1),
  zones(2),
  zones(5),
];

/**
 * Time a transfer adds after its prefill when each of so many layers is sent as soon as it is computed. Both take the layers one after the other at an even
 * pace, a flow shop of two machines, so the last layer arrives max(x / L, x - p (1 - 1 / L)) after the end of the prefill.
 */
function exposedNs(prefillNs: number, transferNs: number, layers: number): number {
  return Math.max(transferNs / layers, transferNs - prefillNs * (1 - 1 / layers));
}

/** Mean TTFT, ms, if the KV of every request had been sent layer by layer at the pace that it had in the run. */
function overlappedTtftMs({ columns: found }: Measurement, layers: number): number {
  const { arrivalNs = [], prefillStartNs = [], prefillEndNs = [], transferStartNs = [], transferEndNs = [], firstTokenNs = [] } = found;
  const times = arrivalNs.map((arrival, index) => {
    const transferNs = transferEndNs[index]! - transferStartNs[index]!;
    const savedNs = transferNs - exposedNs(prefillEndNs[index]! - prefillStartNs[index]!, transferNs, layers);
    return (firstTokenNs[index]! - arrival - savedNs) / 1e6;
  });
  return mean(times);
}

/** What another precision, parallelism, distance or way of sending makes of the gain. */
export function variantsPart(quick: boolean): StudyPart {
  const seeds = quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
  const shown = variants.filter(({ name }) => !quick || name !== zones(2).name);
  const begin = [`workload.requests=${quick ? 300 : 1000}`];
  const cases = shown.flatMap((variant) =>
    variant.routers.map((router) => ({ settings: [...begin, ...variant.settings, ...routers[router]], columns })),
  );
  const read = readScenario(oracleFile);
  const { layers } = catalogueOf(read).models.get(read.scenario.model.name)!;
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const rows: StudyCell[][] = [];
      let place = 0;
      const asIs = { cla: runsAt(runs, 0, seeds), netkv: runsAt(runs, 1, seeds) };
      for (const { name, routers: names } of shown) {
        const cla = runsAt(runs, place, seeds);
        for (const router of names) {
          const found = runsAt(runs, place++, seeds);
          rows.push(rowOf(name, router, found.map(ttftMs), found, router === 'cla' ? null : changes(cla, found)));
        }
      }
      const hidden = (router: 'cla' | 'netkv'): number[] => asIs[router].map((run) => overlappedTtftMs(run, layers));
      const [claMs, netkvMs] = [hidden('cla'), hidden('netkv')];
      const left = meanInterval(claMs.map((before, seed) => 100 * (netkvMs[seed]! / before - 1)));
      const name = 'sent layer by layer';
      rows.splice(2, 0, rowOf(name, 'cla', claMs, asIs.cla, null), rowOf(name, 'netkv', netkvMs, asIs.netkv, left));
      const gain = (of: string, router: Router = 'netkv'): string =>
        said(-(rows.find((row) => row[0] === of && row[1] === router)![5] as number));
      return {
        table: table(
          'variants',
          'Precision, parallelism, overlap and distance',
          `Change: mean TTFT against cla in the same variant, +- 95 % over seeds. Sent layer by layer: computed from the runs as they are, request by request, as a flow shop of ${layers} layers; ` +
            'it takes for granted that the decode engine is known before the prefill and that transfers keep the pace they had. Two zones: a pod each, four links of 25 Gb/s between them.',
          ['variant', 'router', 'TTFT (ms)', 'transfer (ms)', 'network share (%)', 'change (%)', '+-'],
          rows,
        ),
        sentence:
          `The gain of netkv on cla is ${gain('as is')} % as it is, ${gain('KV in 8 bit')} % with KV in 8 bit, ${gain('TP8')} % with TP8, ${gain(name)} % when KV is sent layer by layer ` +
          `(TTFT ${said(mean(netkvMs), 0)} ms instead of ${said(mean(asIs.netkv.map(ttftMs)), 0)}), and ${gain(zones(1).name)} % and ${gain(zones(5).name)} % across zones 1 and 5 ms apart, where choosing the zone first gains ` +
          `${gain(zones(1).name, 'zone-first')} % and ${gain(zones(5).name, 'zone-first')} %.`,
      };
    },
  };
}

function rowOf(
  name: string,
  router: string,
  ttfts: readonly number[],
  found: readonly Measurement[],
  change: ReturnType<typeof changes> | null,
): StudyCell[] {
  const ttft = mean(ttfts);
  const transfer = mean(found.map(transferMs));
  const overlapped = name === 'sent layer by layer';
  return [
    name,
    router,
    ttft,
    transfer,
    overlapped ? null : (100 * transfer) / ttft,
    change?.mean ?? null,
    change === null ? null : reach(change),
  ];
}
