import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { makeOutputFolder, refuse } from '../arguments.js';
import { quoted } from '../replay.js';

/** A scenario that runs as it stands, in a second, and shows the keys one changes first. */
const firstScenario = `# Two servers of eight H100: prefill and decode on separate GPUs. \`braess validate\` lists every default that is not written here.
name: first
cluster: { gpu: H100, serversPerRack: 2 }
model: { name: Llama-3.1-8B }
serving: # groups of equal engines; tensorParallel: 4 would give each of them four GPUs
  - { count: 6, role: prefill, blockTokens: 64 }
  - { count: 10, role: decode, blockTokens: 64 }
router: { policy: kv } # another: braess policy list; your own: braess policy new router NAME
workload:
  requests: 2000
  source: # or your trace: { kind: trace, file: trace.csv }
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 60 }
    inputTokens: { kind: lognormal, meanTokens: 2000, sigma: 0.8, maxTokens: 16000 }
    outputTokens: { kind: exponential, meanTokens: 100, maxTokens: 1000 }
    prefix: { groups: 20, popularity: { kind: zipf, exponent: 1 }, prefixTokens: { kind: constant, tokens: 1024 } }
  slo: { ttftMs: 500, itlMs: 50 }
`;

/** `braess init`: something to start from, where there is no checkout with its configs/. */
export function initCommand(): Command {
  return new Command('init')
    .description('writes a small scenario to start from')
    .argument('[FILE]', 'where to', 'scenario.yaml')
    .action(async (file: string, _options: unknown, command: Command) => {
      await makeOutputFolder(command, dirname(file), 'FILE');
      try {
        writeFileSync(file, firstScenario, { flag: 'wx' });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        refuse(command, `FILE: '${file}' is there already; name another, or move it away`);
      }
      const name = quoted(file);
      process.stdout.write(
        [
          `written: ${file}`,
          'Next:',
          `  braess validate ${name}`,
          `  braess run ${name}`,
          `  braess run ${name} --sweep workload.rateFactor=1,2,3`,
          '',
        ].join('\n'),
      );
    });
}
