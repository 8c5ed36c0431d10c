import { type EnginePlan, parseScenario, planCluster } from '@braess/cluster';
import { describe, expect, it } from 'vitest';

const workload = `workload: { requests: 10, source: { kind: mooncake-like } }`;

function placed(cluster: string, serving: readonly string[], more = ''): readonly EnginePlan[] {
  return planCluster(
    parseScenario(`cluster: ${cluster}\nserving:\n${serving.map((group) => `  - ${group}\n`).join('')}${workload}\n${more}`, 'places.yaml'),
  ).engines;
}

/** Engines of a group under each prefix of this many parts of their name. */
function counts(engines: readonly EnginePlan[], group: number, parts: number): Record<string, number> {
  const found: Record<string, number> = {};
  for (const engine of engines) {
    const place = engine.name.split('/').slice(0, parts).join('/');
    if (engine.group === group) found[place] = (found[place] ?? 0) + 1;
  }
  return found;
}

describe('where the engines of a group are', () => {
  const tree = '{ pods: 2, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 4 }';

  it('packed: one behind the other, groups of several GPUs aligned', () => {
    const engines = placed(tree, ['{ count: 3 }', '{ count: 2, tensorParallel: 2 }', '{ count: 1 }']);
    expect(engines.map(({ name }) => name)).toEqual([
      'pod0/rack0/node0/engine0',
      'pod0/rack0/node0/engine1',
      'pod0/rack0/node0/engine2',
      'pod0/rack0/node1/engine0',
      'pod0/rack0/node1/engine2',
      'pod0/rack1/node0/engine0',
    ]);
  });

  it('spread: as many in every rack, give or take one, whatever lies there', () => {
    const engines = placed(tree, [
      '{ count: 6, role: prefill, placement: spread }',
      '{ count: 9, role: decode, placement: spread, tensorParallel: 2 }',
    ]);
    expect(counts(engines, 0, 2)).toEqual({ 'pod0/rack0': 2, 'pod1/rack0': 2, 'pod0/rack1': 1, 'pod1/rack1': 1 });
    expect(counts(engines, 1, 2)).toEqual({ 'pod0/rack0': 3, 'pod1/rack0': 2, 'pod0/rack1': 2, 'pod1/rack1': 2 });
    const gpus = engines.flatMap(({ gpuNames }) => gpuNames);
    expect(new Set(gpus).size).toBe(6 + 9 * 2);
    for (const { gpuNames, server } of engines) expect(gpuNames.every((gpu) => gpu.startsWith(`${server}/gpu`))).toBe(true);
    // Within the rack the first that are free: the second prefill engine is beside the first, the decode engines behind them.
    expect(engines.filter(({ name }) => name.startsWith('pod0/rack0')).map(({ name }) => name)).toEqual([
      'pod0/rack0/node0/engine0',
      'pod0/rack0/node0/engine1',
      'pod0/rack0/node0/engine2',
      'pod0/rack0/node1/engine0',
      'pod0/rack0/node1/engine2',
    ]);
  });

  it('spread: few engines reach every zone first, then every pod; full racks are passed over', () => {
    const zones = '{ pods: 2, racksPerPod: 2, gpusPerServer: 2, topology: { kind: multi-zone, zones: 2 } }';
    const first = (count: number): string[] =>
      placed(zones, [`{ count: ${count}, placement: spread }`]).map(({ name }) => name.split('/').slice(0, 3).join(' '));
    expect(first(5)).toEqual(['zone0 pod0 rack0', 'zone1 pod0 rack0', 'zone0 pod1 rack0', 'zone1 pod1 rack0', 'zone0 pod0 rack1']);
    expect(Object.values(counts(placed(zones, ['{ count: 16, placement: spread }']), 0, 3))).toEqual(Array(8).fill(2));
    const behind = placed(tree, ['{ count: 8 }', '{ count: 6, placement: spread }']);
    expect(counts(behind, 1, 2)).toEqual({ 'pod1/rack0': 2, 'pod0/rack1': 2, 'pod1/rack1': 2 });
  });

  it('packed goes round what is spread; rounds of a spread group go on', () => {
    const mixed = placed(tree, ['{ count: 4, placement: spread }', '{ count: 7 }']);
    expect(counts(mixed, 1, 3)).toEqual({ 'pod0/rack0/node0': 3, 'pod0/rack0/node1': 4 });
    expect(counts(placed(tree, ['{ count: 2, placement: spread }'], 'servingRounds: 4'), 0, 2)).toEqual({
      'pod0/rack0': 2,
      'pod1/rack0': 2,
      'pod0/rack1': 2,
      'pod1/rack1': 2,
    });
  });

  it('engines of several servers fill whole ones, in one pod', () => {
    const nodes = (engine: EnginePlan): string[] => [...new Set(engine.gpuNames.map((gpu) => gpu.slice(0, gpu.lastIndexOf('/'))))];
    const pods = '{ pods: 2, racksPerPod: 3, gpusPerServer: 4 }';
    const wide = placed(pods, ['{ count: 2 }', '{ count: 2, tensorParallel: 8 }']).filter(({ group }) => group === 1);
    expect(wide.map(({ name, server }) => [name, server])).toEqual([
      ['pod0/rack1/node0/engine0', 'pod0/rack1/node0'],
      ['pod1/rack0/node0/engine0', 'pod1/rack0/node0'],
    ]);
    expect(wide.map(nodes)).toEqual([
      ['pod0/rack1/node0', 'pod0/rack2/node0'],
      ['pod1/rack0/node0', 'pod1/rack1/node0'],
    ]);
    // The third server of a pod is left: no engine crosses pods.
    expect(() => placed(pods, ['{ count: 3, tensorParallel: 8 }'])).toThrow(/no 8 GPUs side by side in a pod are left/);
    const odd = '{ pods: 1, racksPerPod: 2, serversPerRack: 3, gpusPerServer: 4 }';
    expect(() => placed(odd, ['{ count: 3, tensorParallel: 8, placement: spread }'])).toThrow(
      /no 8 GPUs side by side in a rack are left, .* the servers of a rack do not come out even; use placement: packed/,
    );
    expect(placed(odd, ['{ count: 3, tensorParallel: 8 }'])).toHaveLength(3);
    const spread = placed(tree, ['{ count: 3, tensorParallel: 8, placement: spread }']);
    expect(spread.map(nodes)).toEqual(['pod0/rack0', 'pod1/rack0', 'pod0/rack1'].map((rack) => [`${rack}/node0`, `${rack}/node1`]));
  });

  it('engines that no place is large enough for are refused', () => {
    const refused = (group: string) => expect(() => placed(tree, [group]));
    refused('{ count: 1, tensorParallel: 6 }').toThrow(
      /serving\[0\]\.tensorParallel is 6; servers have 4 GPUs: use a divisor of that, or a multiple/,
    );
    refused('{ count: 1, tensorParallel: 32 }').toThrow(/tensorParallel is 32; a pod has 16 GPUs: raise racksPerPod or serversPerRack/);
    refused('{ count: 1, tensorParallel: 16, placement: spread }').toThrow(
      /tensorParallel is 16; a rack has 8 GPUs: use placement: packed, or raise serversPerRack/,
    );
    refused('{ count: 5, tensorParallel: 8 }').toThrow(/all groups need 40 GPUs, the cluster has 32/);
    refused('{ count: 2, tensorParallel: 8 }').not.toThrow();
  });

  it('what does not fit is refused with the reason', () => {
    expect(() => placed(tree, ['{ count: 33, placement: spread }'])).toThrow(
      /serving\[0\]\.count does not fit: all groups need 33 GPUs, the cluster has 32/,
    );
    expect(() => placed(tree, ['{ count: 4, placement: spread }', '{ count: 5, tensorParallel: 4 }'])).toThrow(
      /serving\[1\]\.count does not fit: no 4 GPUs side by side in a server are left.*larger tensorParallel first/,
    );
  });
});
