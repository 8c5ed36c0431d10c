import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { planCluster, readScenario } from '@braess/cluster';
import {
  fitNetkv,
  frozenParameters,
  type Measurement,
  type ReproductionRow,
  type ReproductionSuite,
  reproductionSuite,
  type ScenarioCase,
} from '@braess/lab';
import { describe, expect, it } from 'vitest';

const configs = fileURLToPath(new URL('../../../configs/paper/netkv/', import.meta.url));
const suite = reproductionSuite('netkv') as ReproductionSuite;

/** A run that anything can be asked of. */
const run = {
  summary: {
    ttftMs: { mean: 2000, p50: 1, p90: 2, p99: 3 },
    transferMs: { mean: 1000, p50: 1, p90: 2, p99: 3 },
    itlMs: { mean: 13, p50: 1, p90: 2, p99: 3 },
    sloAttainment: 0.9,
  },
  transfersByTier: [0, 0, 30, 70, 0],
} as unknown as Measurement;

async function rowsOf(quick: boolean): Promise<ReproductionRow[]> {
  const rows: ReproductionRow[] = [];
  for (const part of suite.parts({ quick })) {
    const announced = new Set(part.cases.map((each) => JSON.stringify(each)));
    const runsOf = (scenario: ScenarioCase): Measurement[] => {
      expect(announced).toContain(JSON.stringify(scenario));
      return [run, run];
    };
    rows.push(...(await part.evaluate(runsOf)).rows);
  }
  return rows;
}

describe('the rows of NetKV', () => {
  it('each number of the paper has one row, and agrees with the headlines of its abstract', async () => {
    const rows = await rowsOf(false);
    const ids = rows.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of [
      'table2.rag.200.netkv.ttft',
      'table2.rag.200.netkv.tbt',
      'table2.rag.200.netkv.slo',
      'table2.rag.200.netkv.transfer',
      'table2.rag.200.gain.cla',
      'table2.rag.200.gain.rr',
      'table3.16384.gain.rr',
      'table4.chatbot.self.ttft',
      'table5.64.flow.gain',
      'table6.cla.tier2',
      'figure1.rag.4.20',
      'figure2.rag.60',
      'figure3.netkv.0.9',
      'figure5.1024.netkv',
    ])
      expect(ids).toContain(id);
    const published = (pattern: RegExp): number[] =>
      rows.flatMap(({ id, published: value }) => (pattern.test(id) && value !== null ? [value] : []));
    // At most 21.2 % against round robin, 17.6 % against CLA*, 20.1 points of SLO, TBT never up by more than 0.5 ms.
    expect(Math.max(...published(/^table[23]\..*gain\.rr$/))).toBeCloseTo(21.2, 1);
    expect(Math.max(...published(/^table[23]\..*gain\.cla$/))).toBeCloseTo(17.6, 1);
    expect(Math.max(...published(/^table3\..*slo/))).toBe(20.1);
    expect(Math.max(...published(/^table3\..*tbt$/))).toBeLessThan(0.5);
    for (const name of ['cla', 'netkv'])
      expect(published(new RegExp(`^table6\\.${name}`)).reduce((sum, share) => sum + share)).toBeCloseTo(100, 9);
    expect(published(/^figure1\.(chatbot|rag|long)\./)).toHaveLength(60);
    // Table 4 at 100 % is Table 2's CLA*.
    expect(published(/^table4\.rag\.cla\.ttft$/)).toEqual(published(/^table2\.rag\.100\.cla\.ttft$/));
  });

  it('fitted are the rows of the calibration and no others', async () => {
    const fitted = (await rowsOf(false)).filter(({ basis }) => basis === 'fit').map(({ id }) => id);
    expect(fitted.every((id) => /^table2\.rag\.100\.(rr|cla)\.|^table6\.cla\.|^table4\.rag\.cla\.ttft$/.test(id))).toBe(true);
    expect(fitted).toHaveLength(15);
    expect((await rowsOf(true)).length).toBeLessThan(200);
  });
});

describe('the configurations of NetKV', () => {
  it('all can be planned, with the cluster of the paper', () => {
    for (const name of readdirSync(configs)) {
      const { engines } = planCluster(readScenario(`${configs}${name}`));
      const size = Number(/gpus-(\d+)/.exec(name)?.[1] ?? 64);
      expect(engines.length).toBe(size / 4);
      // Racks of one role: the groups of a rack are all of one group.
      const racks = new Map<string, Set<number>>();
      for (const { server, group } of engines) {
        const rack = server.slice(0, server.lastIndexOf('/'));
        racks.set(rack, (racks.get(rack) ?? new Set()).add(group));
      }
      expect([...racks.values()].every((groups) => groups.size === 1)).toBe(true);
      expect([...racks].filter(([, groups]) => groups.has(0)).map(([rack]) => rack)).toHaveLength(size / 64);
    }
  });

  it('45 GB of KV and all that four GPUs have are accepted, more is refused', () => {
    const blocks = (setting: string): number =>
      planCluster(readScenario(`${configs}rag.yaml`, [`serving[1].kvBlocks=${setting}`])).groups[1]?.capacityBlocks as number;
    const blockBytes = 512 * 327_680;
    expect(Math.floor(45e9 / blockBytes)).toBe(blocks('268'));
    // Of four times 80 GiB at most nine tenths, less 141 GB of weights and 4 GB a GPU for the rest.
    expect(blocks('null')).toBeGreaterThan(268);
    expect(blocks('null') * blockBytes).toBeLessThan(4 * 80 * 2 ** 30 * 0.9 - 141e9 - 4 * 4e9);
    expect(() => blocks(String(blocks('null') + 20))).toThrow('do not fit');
  });
});

describe('the fit', () => {
  it('finds what the file holds to be of the same kind, in the number of tries it says', async () => {
    const told: number[] = [];
    const thin = { seeds: [1], requests: 300, prefixGroups: [80], parallel: 1 };
    const fit = await fitNetkv({ ...thin, onTry: (tries) => told.push(tries) });
    // Whoever is not told of each try learns their number as well.
    expect(await fitNetkv(thin)).toEqual(fit);
    expect(fit.frozen).toEqual(frozenParameters());
    expect(told).toEqual(Array.from({ length: fit.tries }, (_, index) => index + 1));
    expect(fit.runs).toBe(2 * fit.tries);
    expect(fit.targets).toHaveLength(10);
    // By construction the constants come out: what is left is rounding.
    const of = (id: string) =>
      fit.targets.find((target) => target.id === `table2.rag.100.rr.${id}`) as { published: number; emulated: number };
    expect(Math.abs(of('tbt').emulated - of('tbt').published)).toBeLessThan(0.1);
    expect(Math.abs(of('transfer').emulated / of('transfer').published - 1)).toBeLessThan(0.2);
  });
});
