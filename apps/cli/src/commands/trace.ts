import type { PrefixReuse, ReadTraceOptions, TraceFormatName, TraceReport, TraceStatistics, TurnPrompts } from '@braess/workload';
import { plot } from 'asciichart';
import { Command, InvalidArgumentError, Option } from 'commander';
import { checkFile } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { numberText, percentText } from '../number-text.js';
import { realNumber, wholeNumber } from '../option-values.js';
import { plainJson } from '../plain-json.js';
import { fixed, textTable } from '../text-output.js';

/** Cache sizes of the table, in blocks. */
const tableBlocks = [10, 30, 100, 300, 1000, 5000, 10_000, 30_000, 50_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];
const chartColumns = 64;
const chartHeight = 8;
const formats: readonly TraceFormatName[] = ['mooncake', 'azure', 'burstgpt', 'dynamo', 'plain'];

interface Options {
  readonly format?: TraceFormatName;
  readonly asIs?: boolean;
  readonly countBad?: boolean;
  readonly hashTokens: number;
  readonly turnPrompts?: TurnPrompts;
  readonly window: number;
  readonly json?: boolean;
}

export function traceCommand(): Command {
  return new Command('trace')
    .description('tells the format of a request trace and prints its statistics')
    .argument('<FILE>', 'Mooncake JSONL, Azure CSV, BurstGPT CSV, Dynamo request trace or plain CSV; plain or .gz')
    .option('--format <name>', `one of ${formats.join(', ')} (default: told from the first line)`, formatName)
    .option('--hash-tokens <N>', 'tokens that a hash of a Mooncake trace stands for', wholeNumber(1, 1 << 20), 512)
    .addOption(
      new Option(
        '--turn-prompts <what>',
        'what rows of later turns of Mooncake sessions have (default: whole with hashes, added without)',
      ).choices(['whole', 'added']),
    )
    .option('--as-is', "keep equal timestamps instead of spreading them over the tick of the format's clock")
    .option('--count-bad', 'bad rows, which are counted, listed and left out, are no failure')
    .option('--window <S>', 'seconds of the windows in which arrivals are counted for the burstiness', realNumber(0.001, 1e6), 60)
    .option('--json', 'print one JSON object and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (file: string, options: Options, command: Command) => {
      checkFile(command, 'FILE', file);
      const { report, statistics } = await measure(file, options);
      process.stdout.write(`${options.json ? plainJson({ report, statistics }) : describe(report, statistics)}\n`);
      if (report.rejectedRows === 0 || options.countBad === true) return;
      process.stderr.write(`error: ${rowsText(report.rejectedRows)} bad, the first: ${report.rejections[0]}; --count-bad accepts that\n`);
      process.exitCode = exitCodes.failed;
    });
}

function formatName(text: string): TraceFormatName {
  const format = formats.find((name) => name === text);
  if (format !== undefined) return format;
  throw new InvalidArgumentError(`It must be one of ${formats.join(', ')}.`);
}

/** Streams the file: memory follows the distinct blocks and lengths, not the requests. */
async function measure(file: string, options: Options): Promise<{ report: TraceReport; statistics: TraceStatistics }> {
  const { createTraceReport, createTraceTally, finishTally, streamTrace, tallyBatch } = await import('@braess/workload');
  const report = createTraceReport(file);
  const tally = createTraceTally(cacheSizes(), options.window);
  const reading: ReadTraceOptions = {
    badRows: 'count',
    hashTokens: options.hashTokens,
    arrivals: options.asIs === true ? 'as-is' : 'spread',
    ...(options.format === undefined ? {} : { format: options.format }),
    ...(options.turnPrompts === undefined ? {} : { turnPrompts: options.turnPrompts }),
  };
  for await (const batch of streamTrace(file, reading, report)) tallyBatch(tally, batch);
  return { report, statistics: finishTally(tally) };
}

/** Those of the table, and between them eight a decade for the curve. */
function cacheSizes(): number[] {
  const curve = Array.from({ length: 57 }, (_, step) => Math.round(10 ** (step / 8)));
  return [...new Set([...tableBlocks, ...curve])].sort((a, b) => a - b);
}

function describe(report: TraceReport, statistics: TraceStatistics): string {
  const parts = [heading(report, statistics), rateTable(statistics), lengthTable(statistics)];
  if (statistics.prefixReuse === null) parts.push('No prefix identity in this trace: prefix reuse is unknown.');
  else parts.push(reuseTable(statistics.prefixReuse), reuseChart(statistics.prefixReuse));
  if (report.rejectedRows > 0) parts.push(rejections(report));
  return parts.join('\n');
}

function heading(
  { file, format, lines, spreadTickNs, otherEvents, delayedTurns, shorterTurns, ignoredFields }: TraceReport,
  { requests, durationS, sessions }: TraceStatistics,
): string {
  const facts = [`${file}: format ${format}, ${fixed(requests)} requests over ${numberText(durationS)} s in ${fixed(lines)} lines`];
  if (sessions > 0) facts.push(`${fixed(sessions)} sessions`);
  if (delayedTurns > 0)
    facts.push(
      `${fixed(delayedTurns)} turns come a delay after an answer, which takes no time in what follows: their arrivals are the earliest`,
    );
  if (shorterTurns > 0)
    facts.push(
      `${fixed(shorterTurns)} turns have shorter prompts than the turn before: do rows have what turns add (--turn-prompts added)?`,
    );
  if (ignoredFields.length > 0) facts.push(`fields that nothing goes by: ${ignoredFields.join(', ')}`);
  if (otherEvents > 0) facts.push(`${fixed(otherEvents)} lines are events that are no requests`);
  if (spreadTickNs > 0)
    facts.push(
      `requests with one timestamp were spread evenly over the clock's tick of ${numberText(spreadTickNs / 1e9)} s (--as-is keeps them)`,
    );
  return facts.join('\n');
}

function rateTable(statistics: TraceStatistics): string {
  const { requestsPerSecond, inputTokensPerSecond, outputTokensPerSecond, gapCv, dispersion, windowS } = statistics;
  return textTable(
    ['requests/s', 'input tokens/s', 'output tokens/s', 'gap CV', `dispersion over ${numberText(windowS)} s`],
    [[requestsPerSecond, inputTokensPerSecond, outputTokensPerSecond, gapCv, dispersion].map(numberText)],
    ['right', 'right', 'right', 'right', 'right'],
  );
}

function lengthTable({ input, output }: TraceStatistics): string {
  const columns = ['mean', 'min', 'p50', 'p90', 'p99', 'max'] as const;
  return textTable(
    ['tokens', ...columns],
    [
      ['input', ...columns.map((column) => numberText(input[column]))],
      ['output', ...columns.map((column) => numberText(output[column]))],
    ],
  );
}

function reuseTable({ blockTokens, blocks, distinctBlocks, lru, infiniteShare, infiniteTokenShare }: PrefixReuse): string {
  const sized = lru.filter(({ cacheBlocks }) => tableBlocks.includes(cacheBlocks));
  // From the first size that holds all reuse on, larger ones say the same.
  const enough = sized.findIndex(({ share }) => share === infiniteShare);
  const rows = (enough < 0 ? sized : sized.slice(0, enough + 1)).map(({ cacheBlocks, share }) => [
    fixed(cacheBlocks),
    fixed(cacheBlocks * blockTokens),
    percentText(share, 2),
  ]);
  rows.push(['unlimited', '', percentText(infiniteShare, 2)]);
  const table = textTable(['LRU cache, blocks', 'tokens', 'blocks found'], rows, ['right', 'right', 'right']);
  return `${table}\n${fixed(blocks)} prompt blocks of ${fixed(blockTokens)} tokens, ${fixed(distinctBlocks)} distinct; an unlimited cache holds ${percentText(infiniteTokenShare, 2)} of the input tokens`;
}

/** Share of blocks found over the size of the cache, on a logarithmic axis up to the first size that holds all reuse. */
function reuseChart({ lru, infiniteShare }: PrefixReuse): string {
  const enough = lru.findIndex(({ share }) => share === infiniteShare);
  const points = enough < 0 ? lru : lru.slice(0, enough + 1);
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined || points.length < 2) return '';
  const chart = plot(onLogAxis(points), { height: chartHeight }).replaceAll(/ +$/gm, '');
  const axis = first.cacheBlocks.toString().padEnd(chartColumns / 2) + fixed(last.cacheBlocks).padStart(chartColumns / 2);
  return `percent of blocks found over the size of an LRU cache in blocks\n${chart}\n${' '.repeat(12)}${axis}`;
}

/** Percentages at equal steps of the logarithm of the size, linear in it between the sizes known. */
function onLogAxis(points: readonly { readonly cacheBlocks: number; readonly share: number }[]): number[] {
  const logs = points.map(({ cacheBlocks }) => Math.log(cacheBlocks));
  const [from, to] = [logs[0] as number, logs.at(-1) as number];
  return Array.from({ length: chartColumns }, (_, column) => {
    const log = from + ((to - from) * column) / (chartColumns - 1);
    const right = Math.max(
      1,
      logs.findIndex((each) => each >= log - 1e-12),
    );
    const [left, next] = [points[right - 1], points[right]];
    if (left === undefined || next === undefined) return 0;
    const part = (log - (logs[right - 1] as number)) / ((logs[right] as number) - (logs[right - 1] as number));
    return 100 * (left.share + part * (next.share - left.share));
  });
}

function rejections({ rejectedRows, rejections: messages }: TraceReport): string {
  const more = rejectedRows - messages.length;
  const lines = [`${rowsText(rejectedRows)} bad and left out:`, ...messages.map((message) => `  ${message}`)];
  if (more > 0) lines.push(`  and ${fixed(more)} more`);
  return lines.join('\n');
}

function rowsText(rows: number): string {
  return rows === 1 ? '1 row is' : `${fixed(rows)} rows are`;
}
