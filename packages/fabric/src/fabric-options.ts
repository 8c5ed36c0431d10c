import { LINK_CLASSES, type LinkClass, type Topology } from './topology.js';

/** A background source between two nodes: on and off for exponential times, sending at most `bytesPerSecond` while on. */
export interface OnOffSpec {
  readonly source: number;
  readonly destination: number;
  readonly bytesPerSecond: number;
  readonly meanOnNs: number;
  readonly meanOffNs: number;
}

/** What a run's fabric is made of: constants, known to every thread, no part of any state. */
export interface FabricOptions {
  readonly topology: Topology;
  /** Least delay of every message the fabric sends (the lookahead rule); also the least notice time of an ended transfer. */
  readonly leastDelayNs: number;
  /** Where hashing has a choice, links below this share are passed over (default 0: hashing is blind to degradation). */
  readonly avoidBelowShare?: number;
  /** How long a transfer without any way stands still before it is reported as unreachable (default 1 s). */
  readonly unreachableAfterNs?: number;
  /** Constant share of capacity taken by background traffic, by link class. */
  readonly backgroundShare?: Partial<Record<LinkClass, number>>;
  readonly onOff?: readonly OnOffSpec[];
  /** Period of utilisation records; 0 or absent: none. */
  readonly reportPeriodNs?: number;
  /** Period of the reports to subscribers: 0 reports rates whenever they change; absent: `reportPeriodNs`. */
  readonly tellPeriodNs?: number;
  /** Classes of links that are reported (default: all but NVLink, PCIe and host links). */
  readonly reportClasses?: readonly LinkClass[];
  /**
   * Reports and on-off traffic go on for this long after the last transfer and then rest until the next, so that an idle run can end
   * (default 1 s).
   */
  readonly lingerNs?: number;
  /** Most transfers under way at once (default 1,000,000). */
  readonly transferLimit?: number;
}

export const INSIDE_SERVER: readonly LinkClass[] = ['nvlink', 'pcie', 'host'];

/** Links that are reported, ascending. */
export function reportedLinks(options: FabricOptions): Int32Array {
  const { topology, reportClasses = LINK_CLASSES.filter((name) => !INSIDE_SERVER.includes(name)) } = options;
  const wanted = LINK_CLASSES.map((name) => reportClasses.includes(name));
  const found: number[] = [];
  for (let link = 0; link < topology.linkCount; link++) if (wanted[topology.linkClasses[link]!]) found.push(link);
  return Int32Array.from(found);
}

/** Throws an error that names option, value and limit. */
export function checkFabricOptions(options: FabricOptions): void {
  const { leastDelayNs, unreachableAfterNs = 0, reportPeriodNs = 0, tellPeriodNs = 0, lingerNs = 0 } = options;
  const { topology, backgroundShare = {}, onOff = [] } = options;
  for (const [name, value] of Object.entries({ leastDelayNs, unreachableAfterNs, reportPeriodNs, tellPeriodNs, lingerNs })) {
    if (!(Number.isSafeInteger(value) && value >= 0))
      throw new Error(`fabric.${name} is ${value}; it must be a whole number of ns, 0 or more`);
  }
  for (const [name, share] of Object.entries(backgroundShare)) {
    if (!LINK_CLASSES.includes(name as LinkClass)) {
      throw new Error(`fabric.backgroundShare names link class "${name}"; allowed: ${LINK_CLASSES.join(', ')}`);
    }
    if (!(share >= 0 && share <= 1)) throw new Error(`fabric.backgroundShare.${name} is ${share}; it must lie in 0..1`);
  }
  for (const name of options.reportClasses ?? []) {
    if (!LINK_CLASSES.includes(name)) throw new Error(`fabric.reportClasses names "${name}"; allowed: ${LINK_CLASSES.join(', ')}`);
  }
  for (const [index, { source, destination }] of onOff.entries()) {
    for (const node of [source, destination]) {
      if (!(node >= 0 && node < topology.nodeCount)) {
        throw new Error(`fabric.onOff[${index}] names node ${node}; ids are 0..${topology.nodeCount - 1} (nodeId finds them by name)`);
      }
    }
  }
}
