import { isSelected, type ReproductionSuite, type SuitePart } from '../suite.js';
import { topologies } from './cases.js';
import { cellsPart } from './cells.js';
import { decodeBoundPart } from './decode-bound.js';
import { gridPart } from './grid.js';
import { spikePart } from './spike.js';

/** The price of anarchy on the emulated cluster. */
export const poaSuite: ReproductionSuite = {
  name: 'poa',
  title: 'The price of anarchy in disaggregated inference, on the emulated cluster',
  source: 'published numbers: arXiv 2606.17081v1, June 2026',
  tables: [],
  figures: [],
  experiments: [1, 2, 3, 4, 5],
  // Cases bring their own seeds.
  seeds: () => [1],
  parts: (selection) => {
    const { quick } = selection;
    const parts: Readonly<Record<number, () => SuitePart[]>> = {
      1: () => [gridPart(1, '340b-1p2d', quick)],
      2: () => [gridPart(2, '70b-1p2d', quick), gridPart(2, '70b-1p5d', quick)],
      3: () => (quick ? topologies.slice(0, 1) : topologies).map((topology) => spikePart(topology, quick)),
      4: () => (quick ? topologies.slice(0, 1) : topologies).map((topology) => cellsPart(topology, quick)),
      5: () => [decodeBoundPart(quick)],
    };
    return [1, 2, 3, 4, 5].filter((number) => isSelected(selection, 'experiment', number)).flatMap((number) => parts[number]!());
  },
};
