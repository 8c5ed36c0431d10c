import type { ScenarioReport } from '@braess/cluster';
import { Command } from 'commander';
import { checkInputs, checkOutput } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { fileName, listOf, settingText } from '../option-values.js';
import { fixed, textTable } from '../text-output.js';

interface ValidateOptions {
  readonly json?: boolean;
  readonly set?: string[];
  readonly trace?: string;
  readonly schema?: boolean;
  readonly writeTrace?: string;
}

/** `braess validate`: what follows from a scenario, before anything runs. */
export function validateCommand(): Command {
  return new Command('validate')
    .description('checks a scenario and prints KV blocks, memory, the estimated saturation point and every derived default')
    .argument('[scenario]', 'scenario file (YAML)')
    .option('--set <path=value>', 'set a value of the scenario; may be given several times', listOf(settingText))
    .option('--trace <file>', 'take the requests from this trace', fileName)
    .option('--write-trace <file>', 'write the requests as a plain CSV trace (.gz: compressed), which a run can replay', fileName)
    .option('--schema', 'print the JSON Schema of scenario files, for editors, and nothing else')
    .option('--json', 'print one JSON object')
    .addHelpText('after', exitCodeHelp)
    .action(async (file: string | undefined, options: ValidateOptions, command: Command) => {
      const { readScenario, scenarioJsonSchema, traceSetting, validateScenario, writeWorkload } = await import('@braess/cluster');
      if (options.schema === true) {
        process.stdout.write(`${JSON.stringify(scenarioJsonSchema(), null, 2)}\n`);
        return;
      }
      if (file === undefined) command.error("error: missing argument 'scenario'");
      checkInputs(command, file as string, options.trace);
      if (options.writeTrace !== undefined) checkOutput(command, options.writeTrace, '--write-trace');
      const settings = [...(options.trace === undefined ? [] : [traceSetting(options.trace)]), ...(options.set ?? [])];
      const scenario = readScenario(file as string, settings);
      const report = await validateScenario(scenario);
      if (options.writeTrace !== undefined) {
        await writeWorkload(scenario, options.writeTrace);
        const { rateFactor } = scenario.scenario.workload;
        if (rateFactor !== 1)
          process.stderr.write(
            `note: the arrivals in ${options.writeTrace} have workload.rateFactor ${rateFactor} in them: replay it with --set workload.rateFactor=1\n`,
          );
      }
      process.stdout.write(`${options.json === true ? JSON.stringify(report) : describe(report)}\n`);
    });
}

function describe(report: ScenarioReport): string {
  const groups = textTable(
    ['group', 'role', 'engines', 'TP', 'KV blocks', 'KV tokens', 'weights/GPU', 'KV/GPU', 'KV/token/GPU', 'longest', 'timing'],
    report.groups.map((group) => [
      group.name,
      group.role,
      String(group.engines),
      String(group.tensorParallel),
      `${fixed(group.kvBlocks)} x ${group.blockTokens}`,
      fixed(group.kvTokens),
      gigabytes(group.weightBytesPerGpu),
      gigabytes(group.kvBytesPerGpu),
      `${fixed(group.kvBytesPerTokenPerGpu)} B`,
      fixed(group.maxModelTokens),
      group.timing,
    ]),
    ['left', 'left', 'right', 'right', 'right', 'right', 'right', 'right', 'right', 'right', 'left'],
  );
  const { workload, saturation } = report;
  const lines = [
    `${report.name}: ${report.gpus} GPUs`,
    groups,
    ...report.groups
      .filter(({ sequenceBytesPerGpu }) => sequenceBytesPerGpu > 0)
      .map(
        ({ name, sequenceBytesPerGpu }) =>
          `${name}: ${gigabytes(sequenceBytesPerGpu)} a GPU set aside for what maxSequences sequences keep beside blocks (windows, states)`,
      ),
    `workload: ${fixed(workload.requests)} requests at ${fixed(workload.ratePerSecond, 2)}/s, ${fixed(workload.inputTokens)} tokens in and ${fixed(workload.outputTokens)} out on average, ${fixed(100 * workload.repeatedShare, 1)} % of the input seen before`,
    `estimated saturation: ${fixed(saturation.requestsPerSecond, 2)} requests/s without prefix hits, limited by the ${saturation.limit} stage (prefill ${fixed(saturation.prefillRequestsPerSecond, 2)}/s, decode ${fixed(saturation.decodeRequestsPerSecond, 2)}/s at ${saturation.decodeSequences} sequences an engine)`,
    ...report.warnings.map((warning) => `note: ${warning}`),
    'defaults filled in:',
    ...report.defaults.map(({ path, value }) => `  ${path}: ${JSON.stringify(value)}`),
  ];
  return lines.join('\n');
}

function gigabytes(bytes: number): string {
  return `${fixed(bytes / 1e9, 1)} GB`;
}
