import type { PoaSample } from '@braess/cluster';
import { OUTCOME, type RunTables } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { measureWindows } from '../src/measure-windows.js';

interface Life {
  readonly cameS: number;
  readonly firstS: number;
  readonly endS: number;
}

function tablesOf(lives: readonly Life[]): RunTables {
  const column = (of: (life: Life) => number) => lives.map((life) => of(life) * 1e9);
  const segment = {
    rows: lives.length,
    outcome: lives.map(() => OUTCOME.completed),
    arrivalNs: column(({ cameS }) => cameS),
    firstTokenNs: column(({ firstS }) => firstS),
    lastTokenNs: column(({ endS }) => endS),
    endNs: column(({ endS }) => endS),
  };
  return { requests: { segments: [segment] } } as unknown as RunTables;
}

const counted = (inFlight: number, seconds: number): PoaSample[] =>
  Array.from({ length: seconds }, (_, second) => ({
    atNs: (second + 0.5) * 1e9,
    numeratorSeconds: 0,
    denominatorSeconds: 0,
    inFlight,
    inService: inFlight,
  }));

/** Five loops in lockstep, each request 10 s long: rate 0.5 a second, 5 in flight. */
const bursts = [0, 10, 20, 30].flatMap((cameS) => Array.from({ length: 5 }, () => ({ cameS, firstS: cameS + 1, endS: cameS + 10 })));

describe("Little's law over a window", () => {
  const errorOf = (lives: readonly Life[], samples: readonly PoaSample[]) =>
    measureWindows(tablesOf(lives), samples, [{ name: 'whole', fromSeconds: 0, toSeconds: 90 }])[0]!.littleError;

  it('holds for bursts, whatever part of one the window ends in', () => {
    for (const toSeconds of [25, 27, 29]) {
      const [window] = measureWindows(tablesOf(bursts), counted(5, 30), [{ name: 'steady', fromSeconds: 3, toSeconds }]);
      expect(window!.inFlight).toBeCloseTo(5, 9);
      // Two bursts in less than two and a half requests' time: too many for the window as a whole, as many as there should be in whole requests' times.
      expect(window!.requestsPerSecond).toBeCloseTo(10 / (toSeconds - 3), 9);
      expect(window!.littleError).toBeCloseTo(0, 9);
    }
  });

  it('is checked against what was counted apart from the latencies', () => {
    const steady = Array.from({ length: 400 }, (_, index) => ({ cameS: index / 4, firstS: index / 4 + 0.5, endS: index / 4 + 2 }));
    expect(Math.abs(errorOf(steady, counted(8, 100)))).toBeLessThan(0.03);
    expect(errorOf(steady, counted(16, 100))).toBeCloseTo(-0.5, 1);
    // Nobody counted: the time spent in the window stands in.
    expect(Math.abs(errorOf(steady, []))).toBeLessThan(0.03);
  });
});
