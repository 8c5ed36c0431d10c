import type { ExplainCandidate, ExplainLine } from '@braess/telemetry';
import { Command } from 'commander';
import { checkRunFolder, refusingRanges } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { numberText } from '../number-text.js';
import { wholeNumber } from '../option-values.js';
import { textTable } from '../text-output.js';

export function explainCommand(): Command {
  return new Command('explain')
    .description('the life of one request, step by step, with what each decision saw')
    .argument('<RUN>', 'folder that a run has written')
    .argument('<REQUEST>', 'number of the request (request_id)', wholeNumber(0, 2 ** 31 - 1))
    .option('--json', 'print one JSON object and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (folder: string, request: number, { json }: { json?: boolean }, command: Command) => {
      checkRunFolder(command, folder);
      const { explainRequest } = await import('@braess/telemetry');
      const steps = await refusingRanges(command, () => explainRequest(folder, request));
      process.stdout.write(`${json ? JSON.stringify({ run: folder, request, steps }) : describe(folder, request, steps)}\n`);
    });
}

function describe(folder: string, request: number, steps: readonly ExplainLine[]): string {
  const times = steps.map(({ sinceArrivalMs }) => `+${sinceArrivalMs.toFixed(3)} ms`);
  const timeWidth = Math.max(...times.map((text) => text.length));
  const stepWidth = Math.max(...steps.map(({ step }) => step.length));
  const lines = steps.map(({ step, where, text, candidates }, index) => {
    const line = `${times[index]?.padStart(timeWidth)}  ${step.padEnd(stepWidth)}  ${where === '' ? '' : `${where}: `}${text}`;
    return candidates.length === 0 ? line : `${line}\n${indented(candidateTable(candidates), timeWidth + stepWidth + 4)}`;
  });
  return [`request ${request} of ${folder}, times since its arrival`, ...lines].join('\n');
}

function indented(text: string, spaces: number): string {
  return text.replaceAll(/^/gm, ' '.repeat(spaces));
}

type SeenColumn = Exclude<keyof ExplainCandidate, 'name' | 'chosen'>;

const seenColumns: readonly (readonly [SeenColumn, string])[] = [
  ['score', 'score'],
  ['overlapBlocks', 'overlap blocks'],
  ['prefillBlocks', 'prefill blocks'],
  ['activeBlocks', 'active blocks'],
  ['transferMs', 'transfer ms'],
  ['congestion', 'congestion'],
  ['networkTier', 'network tier'],
  ['viewAgeMs', 'view age ms'],
];

/** Only the columns of which something was seen. */
function candidateTable(candidates: readonly ExplainCandidate[]): string {
  const columns = seenColumns.filter(([key]) => candidates.some((candidate) => candidate[key] !== null));
  return textTable(
    ['candidate', '', ...columns.map(([, title]) => title)],
    candidates.map((candidate) => [
      candidate.name,
      candidate.chosen ? 'chosen' : '',
      ...columns.map(([key]) => {
        const value = candidate[key];
        return typeof value === 'string' ? value : numberText(value);
      }),
    ]),
    ['left', 'left', ...columns.map(() => 'right' as const)],
  );
}
