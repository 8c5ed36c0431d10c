/** Where a value of a scenario stands. `line` 0 stands for the command line. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One mistake in a scenario. */
export interface ScenarioProblem {
  readonly place: Place;
  /** Path of the value, e.g. serving[0].role. */
  readonly path: string;
  readonly message: string;
}

/** A scenario that cannot run: every mistake with file, line, column, value and what is allowed. */
export class ScenarioError extends Error {
  readonly problems: readonly ScenarioProblem[];

  constructor(problems: readonly ScenarioProblem[]) {
    super(problems.map(problemLine).join('\n'));
    this.name = 'ScenarioError';
    this.problems = problems;
  }
}

export function problemLine(problem: ScenarioProblem): string {
  const { file, line, column } = problem.place;
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return `${place}: ${problem.path === '' ? '' : `${problem.path} `}${problem.message}`;
}

/** serving[0].role for ['serving', 0, 'role']. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) text += typeof part === 'number' ? `[${part}]` : text === '' ? String(part) : `.${String(part)}`;
  return text;
}
