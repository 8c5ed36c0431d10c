import { type ActorId, type ActorReference, actorKind, type Cell, type World } from '@braess/kernel';
import { setLinkShare } from '@braess/protocol';
import { chunkNodeKind } from './chunk-node.js';
import { type ChunkOptions, ChunkPlan } from './chunk-options.js';
import { chunkLinkShare } from './chunk-state.js';
import { NODE_KINDS } from './topology.js';

/** Where the program puts the nodes. */
export interface ChunkPlaces {
  /** The cell of a server by its name (pod0/rack0/node1); its GPUs, NICs, NVLink switch and host go there. */
  readonly serverCell: (name: string) => Cell;
  /** Class of the cells of switches, gateways and storage nodes, one each (default `switch`). */
  readonly switchClass?: string;
  /** The cell of the fabric actor that spreads changes of links. */
  readonly fabricCell: Cell;
  readonly fabricClass: string;
  readonly serverClass: string;
  /** Who hears the reports of a node's ports (default: nobody). Must be reachable from its cell in `leastDelayNs`. */
  readonly listenersOf?: (node: number) => readonly ActorReference[];
}

/** A fabric at chunk fidelity. */
export interface ChunkFabric {
  /** Actor that takes `startTransfer` and `cancelTransfer` of transfers from this node (a GPU, host or storage node). */
  readonly endpointOf: (node: number) => ActorReference;
  /** Actor of any node. */
  readonly actorOf: (node: number) => ActorReference;
  /** Actor that takes `setLinkShare`. */
  readonly fabric: ActorReference;
  readonly plan: ChunkPlan;
}

const WITHIN_SERVER = ['gpu', 'nvswitch', 'host', 'nic'];

/**
 * Declares one actor for each node of the topology, in the cell of its place, and the lookahead along every cable that joins two cells (the
 * cable's latency). Every transfer of b bytes is cut into chunks that go hop by hop, store and forward; transfers keep the contract of
 * flow fidelity, but `startTransfer` goes to the actor of the source (`endpointOf`), and the answer comes from that of the destination.
 * An endpoint's actor is named `<node>/port`, every other one as its node.
 */
export function declareChunkFabric(world: World, options: ChunkOptions, places: ChunkPlaces): ChunkFabric {
  const plan = new ChunkPlan(options);
  const { topology } = plan;
  const kind = chunkNodeKind(plan);
  const actors: ActorReference[] = [];
  const cellNames: string[] = [];
  const { switchClass = 'switch', listenersOf = () => [] } = places;
  for (let node = 0; node < topology.nodeCount; node++) {
    const name = topology.nodeNames[node]!;
    const setup = { node, actors, listeners: listenersOf(node) };
    const local = name.slice(name.lastIndexOf('/') + 1) + (plan.isEndpoint(node) ? '/port' : '');
    if (WITHIN_SERVER.includes(NODE_KINDS[topology.nodeKinds[node]!]!)) {
      const cell = places.serverCell(name.slice(0, name.lastIndexOf('/')));
      actors.push(cell.actor(local, kind, setup) as ActorReference);
      cellNames.push(cell.name);
    } else {
      actors.push(world.actor(plan.isEndpoint(node) ? `${name}/port` : name, kind, setup, { class: switchClass }) as ActorReference);
      cellNames.push(plan.isEndpoint(node) ? `${name}/port` : name);
    }
  }
  declareLinks(world, plan, cellNames);
  const { convergenceNs = 1e6 } = options;
  for (const to of [places.serverClass, switchClass]) world.lookahead(places.fabricClass, to, convergenceNs);
  const fabric = places.fabricCell.actor('shares', shareKind(convergenceNs), actors) as ActorReference;
  return { endpointOf: (node) => endpointAt(plan, actors, node), actorOf: (node) => actors[node]!, fabric, plan };
}

/** The least latency of the cables between two cells, each way. */
function declareLinks(world: World, plan: ChunkPlan, cellNames: string[]): void {
  const { topology } = plan;
  const least = new Map<string, number>();
  for (let link = 0; link < topology.linkCount; link++) {
    const [from, to] = [cellNames[topology.linkFrom[link]!]!, cellNames[topology.linkTo[link]!]!];
    if (from === to) continue;
    const key = `${from}\n${to}`;
    const latencyNs = Math.max(1, topology.linkLatencyNs[link]!);
    least.set(key, Math.min(latencyNs, least.get(key) ?? Number.POSITIVE_INFINITY));
  }
  for (const [key, latencyNs] of least) {
    const [from, to] = key.split('\n') as [string, string];
    world.link(from, to, latencyNs);
  }
}

/** Spreads changes of links: all nodes route by them from the same moment on. */
function shareKind(convergenceNs: number) {
  return actorKind({
    name: 'chunkShares',
    messages: { setLinkShare },
    state: (nodes: readonly ActorReference[]) => ({ nodes: Int32Array.from(nodes, (node) => node.id) }),
    on: {
      setLinkShare(state, { first, count, share }, context) {
        if (!(share >= 0 && share <= 1)) throw new Error(`share of link ${first} is ${share}; it must lie in 0..1 (0 dead, 1 whole)`);
        for (const node of state.nodes) context.send(node as ActorId, chunkLinkShare, convergenceNs, first, count, share);
      },
    },
  });
}

function endpointAt(plan: ChunkPlan, actors: readonly ActorReference[], node: number): ActorReference {
  if (plan.isEndpoint(node)) return actors[node]!;
  throw new Error(`${plan.topology.nodeNames[node]} is no end of transfers; only GPUs, hosts and storage nodes are`);
}
