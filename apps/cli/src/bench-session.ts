import type { BenchOptions } from '@braess/bench';
import { SingleBar } from 'cli-progress';
import { exitCodes } from './exit-codes.js';
import { interruptible } from './interruption.js';

/**
 * What surrounds a bench: Ctrl-C ends it with what there is, a bar shows how far it is (on a terminal, unless JSON is asked for), and the result
 * is printed as one JSON object or as text.
 */
export async function benchSession<Result extends { readonly interrupted: boolean }>(
  json: boolean,
  bench: (options: Required<BenchOptions>) => Promise<Result> | Result,
  describe: (result: Result) => string,
): Promise<Result> {
  const bar = progressBar(json);
  const result = await interruptible(async ({ signal }) => {
    try {
      return await bench({ signal, progress: (share, step) => bar?.update(Math.round(share * 1000), { step }) });
    } finally {
      bar?.stop();
    }
  });
  process.stdout.write(`${json ? JSON.stringify(result) : describe(result)}\n`);
  if (result.interrupted) {
    if (!json) process.stderr.write('interrupted: this is what there was until then\n');
    process.exitCode = exitCodes.interrupted;
  }
  return result;
}

function progressBar(json: boolean): SingleBar | undefined {
  if (json || process.stderr.isTTY !== true) return undefined;
  const bar = new SingleBar({
    format: '{bar} {percentage}% | {duration_formatted}, about {eta_formatted} left | {step}',
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    etaBuffer: 100,
  });
  bar.start(1000, 0, { step: '' });
  return bar;
}
