import type { Measurement } from '../../measure-scenario.js';
import { type StudyCell, said, table } from '../study.js';
import { changes, mean, runsAt, type StudyPart, tasksOf, transferMs, ttftMs } from './part.js';

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

const layerByLayer = 'sent layer by layer';
const both: readonly Router[] = ['cla', 'netkv'];
const variants: readonly Variant[] = [
  { name: 'as is', settings: [], routers: both },
  { name: layerByLayer, settings: ['cluster.fabric.overlap=layers'], routers: both },
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

/** What another precision, parallelism, distance or way of sending makes of the gain. */
export function variantsPart(quick: boolean): StudyPart {
  const seeds = quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
  const shown = variants.filter(({ name }) => !quick || name !== zones(2).name);
  const begin = [`workload.requests=${quick ? 300 : 1000}`];
  const cases = shown.flatMap((variant) =>
    variant.routers.map((router) => ({ settings: [...begin, ...variant.settings, ...routers[router]] })),
  );
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const rows: StudyCell[][] = [];
      let place = 0;
      for (const { name, routers: names } of shown) {
        const cla = runsAt(runs, place, seeds);
        for (const router of names) {
          const found = runsAt(runs, place++, seeds);
          rows.push(rowOf(name, router, found, router === 'cla' ? null : changes(cla, found)));
        }
      }
      const gain = (of: string, router: Router = 'netkv'): string =>
        said(-(rows.find((row) => row[0] === of && row[1] === router)![5] as number));
      const ttft = (of: string): number => rows.find((row) => row[0] === of && row[1] === 'netkv')![2] as number;
      return {
        table: table(
          'variants',
          'Precision, parallelism, overlap and distance',
          'Change: mean TTFT against cla in the same variant, +- 95 % over seeds. Sent layer by layer: the decode engine is chosen when the first layer of a prompt is computed. ' +
            'Two zones: a pod each, four links of 25 Gb/s between them.',
          ['variant', 'router', 'TTFT (ms)', 'transfer (ms)', 'network share (%)', 'change (%)', '+-'],
          rows,
        ),
        sentence:
          `The gain of netkv on cla is ${gain('as is')} % as it is, ${gain('KV in 8 bit')} % with KV in 8 bit, ${gain('TP8')} % with TP8, ${gain(layerByLayer)} % when KV is sent layer by layer ` +
          `(TTFT ${said(ttft(layerByLayer), 0)} ms instead of ${said(ttft('as is'), 0)}), and ${gain(zones(1).name)} % and ${gain(zones(5).name)} % across zones 1 and 5 ms apart, where choosing the zone first gains ` +
          `${gain(zones(1).name, 'zone-first')} % and ${gain(zones(5).name, 'zone-first')} %.`,
      };
    },
  };
}

function rowOf(name: string, router: string, found: readonly Measurement[], change: ReturnType<typeof changes> | null): StudyCell[] {
  const ttft = mean(found.map(ttftMs));
  // Of a transfer that waits for its prompt the time says nothing.
  const transfer = name === layerByLayer ? null : mean(found.map(transferMs));
  const share = transfer === null ? null : (100 * transfer) / ttft;
  return [name, router, ttft, transfer, share, change?.mean ?? null, change?.halfWidth ?? null];
}
