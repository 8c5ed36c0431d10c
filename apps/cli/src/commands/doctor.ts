import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Command } from 'commander';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { textTable, verdict } from '../text-output.js';

/** The oldest Node version that Braess runs on. */
const oldestNode = { major: 20, minor: 19 } as const;

export interface Check {
  readonly name: string;
  readonly found: string;
  readonly ok: boolean;
  /** False for what Braess can do without. */
  readonly needed: boolean;
  /** What to do about it; empty when all is well. */
  readonly fix: string;
}

export interface Place {
  readonly what: string;
  readonly where: string;
}

export interface Diagnosis {
  readonly ok: boolean;
  readonly checks: readonly Check[];
  readonly places: readonly Place[];
}

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('checks whether this machine can run Braess, and says what runs where')
    .option('--json', 'print one JSON object and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async ({ json }: { json?: boolean }) => {
      const diagnosis = await diagnose();
      process.stdout.write(`${json ? JSON.stringify(diagnosis) : describe(diagnosis)}\n`);
      if (!diagnosis.ok) process.exitCode = exitCodes.failed;
    });
}

export async function diagnose(nodeVersion = process.versions.node): Promise<Diagnosis> {
  const sharedMemory = await checkSharedMemory();
  const checks = [checkNode(nodeVersion), checkCores(availableParallelism()), sharedMemory];
  // Without these two the kernel cannot even be tried.
  if (checks.every((check) => check.ok || !check.needed)) checks.push(...(await checkTransports()));
  return { ok: checks.every((check) => check.ok || !check.needed), checks, places: whatRunsWhere() };
}

/** Whether the version, as in `process.versions.node`, is recent enough. */
export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const ok = major > oldestNode.major || (major === oldestNode.major && minor >= oldestNode.minor);
  const least = `${oldestNode.major}.${oldestNode.minor}`;
  return { name: 'Node.js', found: version, ok, needed: true, fix: ok ? '' : `install Node ${least} or later` };
}

export function checkCores(cores: number): Check {
  const ok = cores >= 2;
  return { name: 'cores', found: String(cores), ok, needed: false, fix: ok ? '' : 'works, but several shards cannot gain anything' };
}

/** A thread sleeps on shared memory until this one wakes it: what shards do between windows. */
async function checkSharedMemory(): Promise<Check> {
  const name = 'shared memory, Atomics.wait';
  const fix = 'use a Node build with SharedArrayBuffer and worker threads';
  try {
    const words = new Int32Array(new SharedArrayBuffer(8));
    const sleeper = new Worker(
      `const { workerData: words } = require('node:worker_threads');
       Atomics.store(words, 1, 1);
       Atomics.wait(words, 0, 0, 5000);
       process.exitCode = Atomics.load(words, 0) === 1 ? 0 : 1;`,
      { eval: true, workerData: words },
    );
    const ended = new Promise<number>((resolve, reject) => sleeper.once('exit', resolve).once('error', reject));
    sleeper.once('online', () => {
      Atomics.store(words, 0, 1);
      Atomics.notify(words, 0);
    });
    const ok = (await ended) === 0;
    return { name, found: ok ? 'a sleeping thread was woken' : 'a sleeping thread was not woken', ok, needed: true, fix: ok ? '' : fix };
  } catch (error) {
    return { name, found: (error as Error).message, ok: false, needed: true, fix };
  }
}

/** Runs one small program over every transport: all must give one fingerprint. */
async function checkTransports(): Promise<Check[]> {
  const [{ run }, { phold, pholdPlan }] = await Promise.all([import('@braess/kernel'), import('@braess/bench')]);
  const { parameters, untilNs } = pholdPlan({ actors: 64, remote: 0.25, lookahead: 0.5, events: 2000 }, 0);
  const checks: Check[] = [];
  let expected: string | undefined;
  for (const transport of ['memory', 'threads', 'bridged'] as const) {
    const name = `transport '${transport}'`;
    try {
      const { fingerprint } = await run(phold, parameters, { shards: 2, transport, untilNs });
      expected ??= fingerprint;
      const ok = fingerprint === expected;
      const fix = ok ? '' : `expected ${expected}: please report this with your Node version and processor`;
      checks.push({ name, found: `fingerprint ${fingerprint}`, ok, needed: true, fix });
    } catch (error) {
      checks.push({ name, found: (error as Error).message, ok: false, needed: true, fix: 'reinstall with npm ci' });
    }
  }
  return checks;
}

function whatRunsWhere(): Place[] {
  return [
    { what: 'shards', where: 'worker threads, one a shard, also a single one' },
    {
      what: 'messages between shards',
      where: "shared-memory rings ('threads'); through a thread that delays them ('bridged'); one thread ('memory')",
    },
    { what: 'shards auto', where: `one shard or ${Math.min(availableParallelism(), 8)} at most, by a trial at the start of the run` },
    { what: 'progress, records, Ctrl-C', where: 'the main thread, which sleeps meanwhile' },
  ];
}

function describe({ ok, checks, places }: Diagnosis): string {
  const checkTable = textTable(
    ['check', 'ok', 'found', 'what to do'],
    checks.map((check) => [check.name, check.ok ? verdict(true) : check.needed ? verdict(false) : 'weak', check.found, check.fix]),
    ['left', 'left', 'left', 'left'],
  );
  const placeTable = textTable(
    ['what', 'runs where'],
    places.map(({ what, where }) => [what, where]),
    ['left', 'left'],
  );
  return `${checkTable}\n${placeTable}\n${ok ? 'Braess can run here.' : 'Braess cannot run here: see what to do above.'}`;
}
