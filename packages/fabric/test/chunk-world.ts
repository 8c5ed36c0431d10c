import { buildTopology, type ChunkNodeState, type ChunkOptions, declareChunkFabric, nodeId, type Topology } from '@braess/fabric';
import { expect } from 'vitest';
import { fatTree } from './clusters.js';
import {
  defineProgram,
  type Ended,
  faultKind,
  modelOf,
  type Planned,
  type PlannedShare,
  REQUEST_DELAY_NS,
  type RequesterState,
  requesterKind,
  Simulation,
} from './fabric-world.js';

export const CHUNK = 65_536;
export const LINE = 50e9;
export const LEAST_NS = 1000;
export const rack = buildTopology(fatTree(1, 1, 9));
export const tree = buildTopology(fatTree(2, 2, 1));

export interface Setting {
  topology?: Topology;
  plans: Planned[][];
  options?: Partial<ChunkOptions>;
  faults?: PlannedShare[];
  /** Requester 0 hears the reports of all nodes. */
  listen?: boolean;
}

export function simulate({ topology = rack, plans, options = {}, faults = [], listen = false }: Setting, shards = 1): Simulation {
  const program = defineProgram(undefined, 'chunk-test', (world) => {
    const cells = new Map<string, ReturnType<typeof world.cell>>();
    const serverCell = (name: string) => {
      const known = cells.get(name) ?? world.cell(name, { class: 'server' });
      cells.set(name, known);
      return known;
    };
    const fabricCell = world.cell('fabric', { class: 'fabric' });
    const requester = requesterKind(plans);
    // Before the nodes, which report to it; it asks for their ids when the run begins.
    const requesters = plans.map((_plan, index) => {
      const setup = { index, fabricOf: (source: number): number => chunks.endpointOf(source).id };
      return world.actor(`requester${index}`, requester, setup, { class: 'requester' });
    });
    const listenersOf = () => (listen ? requesters.slice(0, 1) : []);
    const places = { serverCell, fabricCell, fabricClass: 'fabric', serverClass: 'server', listenersOf };
    const chunks = declareChunkFabric(world, { topology, leastDelayNs: LEAST_NS, ...options }, places);
    world.actor('faults', faultKind(faults), [chunks.fabric], { class: 'requester' });
    for (const to of ['server', 'switch', 'fabric']) world.lookahead('requester', to, REQUEST_DELAY_NS);
    for (const from of ['server', 'switch']) world.lookahead(from, 'requester', LEAST_NS);
  });
  return new Simulation(modelOf(program, undefined), { shards, strict: shards > 1, keepRecords: true });
}

export function finished(setting: Setting, limitNs = 10e9): Simulation {
  const simulation = simulate(setting);
  simulation.runUntil(limitNs);
  return simulation;
}

export function endedOf(simulation: Simulation, requester = 0): Ended[] {
  return (simulation.stateOf(`requester${requester}`) as RequesterState).ended;
}

export function nodesOf(simulation: Simulation, topology = rack): ChunkNodeState[] {
  return topology.nodeNames.map((name) => {
    const endpoint = /\/(gpu\d+|host|storage\d+)$/.test(name);
    return simulation.stateOf(endpoint ? `${name}/port` : name) as ChunkNodeState;
  });
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function portsOf(simulation: Simulation, topology = rack) {
  return nodesOf(simulation, topology).flatMap((node) => node.chunkSwitch.ports);
}

/** At rest: nothing queued, nobody paused, no transfer known anywhere. */
export function expectRest(simulation: Simulation, topology = rack): void {
  expect(portsOf(simulation, topology).every((port) => port.length === 0 && !port.paused && port.queuedBytes === 0)).toBe(true);
  for (const node of nodesOf(simulation, topology)) {
    expect(sum(node.chunkSwitch.ingressBytes)).toBe(0);
    expect([node.outgoing.size, node.incoming.size, node.senders.reduce((count, sender) => count + sender.flows.length, 0)]).toEqual([
      0, 0, 0,
    ]);
  }
}

export function gpu(node: number, index = 0, topology = rack): number {
  return nodeId(topology, `pod0/rack0/node${node}/gpu${index}`);
}

export function incast(senders: number, transferBytes: number): Planned[][] {
  return [Array.from({ length: senders }, (_unused, index) => ({ atNs: 0, source: gpu(index + 1), destination: gpu(0), transferBytes }))];
}
