import type { Profiler } from 'node:inspector';
import { Session } from 'node:inspector/promises';
import { measureScenario } from './measure-scenario.js';
import { clientPhases } from './reproduce/poa/cases.js';
import { scenarioFile } from './scenario-files.js';

/** What the price-of-anarchy actor costs in one run. */
export interface PoaShare {
  readonly scenario: string;
  /** Processor time of the run on its thread, and of that what its handlers and all they call took, ms. */
  readonly runMs: number;
  readonly actorMs: number;
  readonly percent: number;
}

/** Shares of the runs measured, and the most that is allowed, percent. */
export interface PoaShares {
  readonly rows: readonly PoaShare[];
  readonly targetPercent: number;
}

const targetPercent = 5;
const samplingUs = 200;

/** An open loop on 64 GPUs, and the published spike. */
function scenarios(requests: number): { readonly name: string; readonly settings: readonly string[] }[] {
  const seconds = requests / 80;
  return [
    { name: 'quickstart.yaml', settings: [`workload.requests=${requests}`, 'telemetry.poa={slopeSeconds: 0.2919}'] },
    {
      name: 'paper/poa/340b-1p2d.yaml',
      settings: [
        clientPhases([
          { seconds, inFlight: 32 },
          { seconds, inFlight: 128 },
        ]),
      ],
    },
  ];
}

/** Runs scenarios that follow PoA-hat under V8's sampling profiler, on this thread, and counts the samples with the actor's code on the stack. */
export async function measurePoaShares(requests = 8000): Promise<PoaShares> {
  const rows: PoaShare[] = [];
  for (const { name, settings } of scenarios(requests)) {
    const session = new Session();
    session.connect();
    try {
      await session.post('Profiler.enable');
      await session.post('Profiler.setSamplingInterval', { interval: samplingUs });
      await session.post('Profiler.start');
      await measureScenario({ file: scenarioFile(name), settings });
      const { profile } = await session.post('Profiler.stop');
      rows.push({ scenario: name, ...shareOf(profile, 'poa-actor') });
    } finally {
      session.disconnect();
    }
  }
  return { rows, targetPercent };
}

function shareOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile, module: string): Omit<PoaShare, 'scenario'> {
  const within = new Map<number, boolean>();
  const counted = new Map<number, boolean>();
  // A node comes before its children.
  for (const { id, callFrame, children = [] } of nodes) {
    within.set(id, within.get(id) === true || callFrame.url.includes(module));
    counted.set(id, callFrame.functionName !== '(idle)' && callFrame.functionName !== '(program)');
    for (const child of children) within.set(child, within.get(id) as boolean);
  }
  let runUs = 0;
  let actorUs = 0;
  samples.forEach((id, index) => {
    if (counted.get(id) !== true) return;
    runUs += timeDeltas[index] as number;
    if (within.get(id) === true) actorUs += timeDeltas[index] as number;
  });
  return { runMs: runUs / 1e3, actorMs: actorUs / 1e3, percent: (100 * actorUs) / runUs };
}
