import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PolicyKind, TemplateFile } from '@braess/control';
import { Command } from 'commander';
import { makeOutputFolder, refuse } from '../arguments.js';
import { quoted } from '../replay.js';

export function policyNewCommand(): Command {
  return new Command('new')
    .description('writes a working policy in TypeScript and a test for it')
    .argument('<KIND>', 'what it decides, such as router (braess policy list names the kinds)')
    .argument('<NAME>', 'lower-case words joined by hyphens')
    .option('--out <DIR>', 'folder for the two files, made if it is not there', '.')
    .option('--json', 'print one JSON object with the paths and nothing else')
    .action(async (kind: string, name: string, { out, json }: { out: string; json?: boolean }, command: Command) => {
      const files = await template(command, kind, name);
      const paths = files.map(({ fileName }) => join(out, fileName));
      const present = paths.find((path) => existsSync(path));
      if (present !== undefined) refuse(command, `'${present}' is there already; choose another NAME, another --out, or move it away`);
      await makeOutputFolder(command, out);
      // 'wx' refuses what came to be there meanwhile.
      for (const [index, { text }] of files.entries()) writeFileSync(paths[index] as string, text, { flag: 'wx' });
      process.stdout.write(`${json ? JSON.stringify({ kind, name, paths }) : describe(kind, name, paths)}\n`);
    });
}

async function template(command: Command, kind: string, name: string): Promise<TemplateFile[]> {
  const { policyKinds, policyTemplate } = await import('@braess/control');
  if (!policyKinds.includes(kind as PolicyKind))
    refuse(command, `KIND: there is no policy kind '${kind}'; it must be one of ${policyKinds.join(', ')}`);
  try {
    return [...policyTemplate(kind as PolicyKind, name)];
  } catch (error) {
    return refuse(command, `NAME: ${(error as Error).message}`);
  }
}

function describe(kind: string, name: string, paths: readonly string[]): string {
  const test = paths.find((path) => path.endsWith('.test.mjs'));
  const lines = [`written: ${paths.join(', ')}`];
  if (test !== undefined) lines.push(`Test it with: braess policy test ${quoted(test)}`);
  lines.push(`Name it in a scenario, where the ${kind} policy stands, as ./${name}.ts (relative to the scenario).`);
  return lines.join('\n');
}
