import { studyNamed } from '@braess/lab';

export type Study = NonNullable<ReturnType<typeof studyNamed>>;
type Context = Parameters<Study['run']>[0];
export type Task = Parameters<Context['measureAll']>[0][number];
export type Run = Awaited<ReturnType<Context['measureAll']>>[number];

/** A run of made-up times. */
export function madeUp(ttftMs: number, transferMs: number, transfersByTier: readonly number[] = [0, 0, 1, 1, 0]): Run {
  const all = (mean: number) => ({ mean, p50: mean, p90: mean, p99: mean });
  return {
    summary: {
      ttftMs: all(ttftMs),
      transferMs: all(transferMs),
      itlMs: all(10),
      completed: 100,
      submitted: 100,
      simulatedSeconds: 50,
      sloAttainment: 1,
    },
    transfersByTier,
    series: {},
    columns: {},
    tenants: {},
    oracleFallbackSeconds: 0,
    moves: [],
    fingerprint: '',
    events: 0,
  } as unknown as Run;
}

export async function runOfStudy(name: string, runOf: (task: Task) => Run, scenario?: string) {
  const tasks: Task[] = [];
  const result = await (studyNamed(name) as Study).run({
    quick: true,
    ...(scenario === undefined ? {} : { scenario }),
    measureAll: async (asked) => {
      tasks.push(...asked);
      return asked.map(runOf);
    },
  });
  return { ...result, tasks };
}

export const asks = (task: Task, policy: string): boolean => task.settings.includes(`router.decode={ policy: ${policy} }`);
