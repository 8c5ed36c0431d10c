import { findKnee } from '@braess/games';
import { rowOf } from '../rows.js';
import type { ScenarioCase, SuitePart } from '../suite.js';
import { littleNote, noted, steadyCase, windowsOf } from './cases.js';

const grid = [8, 32, 64, 128, 192, 256, 384, 512] as const;
const quickGrid = [8, 64, 128, 256, 512] as const;

/** Where decode is what saturates: no published numbers. */
export function decodeBoundPart(quick: boolean): SuitePart {
  const used: readonly number[] = quick ? quickGrid : grid;
  // Past the knee a request takes up to 40 s, and Little's law a few of them.
  const secondsAt = (inFlight: number): number => (quick ? 80 : 150) * Math.max(1, inFlight / 256);
  const caseOf = (inFlight: number): ScenarioCase => steadyCase('decode-bound', inFlight, secondsAt(inFlight));
  return {
    id: 'exp5',
    title: 'Experiment 5: a decode-bound load, 70B 1P/1D, no connection limit',
    note: 'ITL has the knee, TTFT has none: not in the paper.',
    cases: used.map(caseOf),
    evaluate: (runsOf) => {
      const itl = used.map((inFlight) => runsOf(caseOf(inFlight))[0]!.summary.itlMs?.p99 ?? Number.NaN);
      const knee = findKnee(used, itl);
      return {
        rows: [
          ...noted(
            [rowOf('exp5.itl-knee', null, knee === undefined ? [] : [knee.firstPastKnee], 'requests')],
            littleNote(used.flatMap((inFlight) => windowsOf(runsOf, caseOf(inFlight), 'steady'))),
          ),
          ...used.flatMap((inFlight, place) => {
            const [steady] = windowsOf(runsOf, caseOf(inFlight), 'steady');
            const [whole] = windowsOf(runsOf, caseOf(inFlight), 'whole');
            return noted(
              [
                rowOf(`exp5.${inFlight}.itl-p99`, null, [itl[place]!], 'ms'),
                rowOf(`exp5.${inFlight}.ttft-p99`, null, [whole!.ttftP99Ms], 'ms'),
                rowOf(`exp5.${inFlight}.poa`, null, steady!.poa === null ? [] : [steady!.poa], 'ratio'),
              ],
              littleNote([steady!]),
            );
          }),
        ],
      };
    },
  };
}
