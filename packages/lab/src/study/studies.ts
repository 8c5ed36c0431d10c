import { setMaxListeners } from 'node:events';
import { performance } from 'node:perf_hooks';
import { MeasurePool } from '../measure-pool.js';
import { cachingStudy } from './caching.js';
import { cascadeStudy } from './cascade.js';
import { controllersStudy } from './controllers.js';
import { mechanismStudy } from './mechanisms.js';
import { oracleStudy } from './oracle-study.js';
import { oscillationStudy } from './oscillation.js';
import { regimesStudy } from './regimes.js';
import type { Study, StudyResult } from './study.js';
import { whenWorthItStudy } from './when-worth-it.js';

const studies: readonly Study[] = [
  mechanismStudy,
  oracleStudy,
  oscillationStudy,
  whenWorthItStudy,
  cachingStudy,
  cascadeStudy,
  controllersStudy,
  regimesStudy,
];

/** The study of a name, or undefined. */
export function studyNamed(name: string): Study | undefined {
  return studies.find((study) => study.name === name);
}

export function studyNames(): string[] {
  return studies.map(({ name }) => name);
}

/** How a study is run. */
export interface StudyOptions {
  readonly quick: boolean;
  /** Scenario file to study in place of the study's own. */
  readonly scenario?: string;
  /** Runs at a time (default: one a core). */
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly runsDone: number; readonly runs: number }) => void;
}

/** A study as it was run. */
export interface StudyReport extends StudyResult {
  readonly name: string;
  readonly title: string;
  readonly quick: boolean;
  readonly runs: number;
  readonly wallSeconds: number;
}

/** @throws RangeError for a study that takes no scenario; what the runs throw; an AbortError when `signal` ends it. */
export async function runStudy(study: Study, options: StudyOptions): Promise<StudyReport> {
  const startedMs = performance.now();
  if (options.scenario !== undefined && study.takesScenario !== true)
    throw new RangeError(`${study.name} brings its own scenarios; leave --scenario out`);
  // Each run listens; there may be many at a time.
  if (options.signal !== undefined) setMaxListeners(0, options.signal);
  const pool = new MeasurePool(options.parallel);
  let runs = 0;
  let announced = 0;
  try {
    const result = await study.run({
      quick: options.quick,
      ...(options.scenario === undefined ? {} : { scenario: options.scenario }),
      measureAll: (tasks) => {
        announced += tasks.length;
        return Promise.all(
          tasks.map(async (task) => {
            const measured = await pool.measure(task, options.signal);
            runs++;
            options.onProgress?.({ runsDone: runs, runs: announced });
            return measured;
          }),
        );
      },
    });
    const { name, title } = study;
    return { name, title, quick: options.quick, runs, wallSeconds: (performance.now() - startedMs) / 1e3, ...result };
  } finally {
    await pool.close();
  }
}
