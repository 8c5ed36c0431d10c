import type { QueueComparison } from '@braess/bench';
import { Command } from 'commander';
import { benchSession } from '../bench-session.js';
import { seedText, wholeNumber } from '../option-values.js';
import { fixed, textTable } from '../text-output.js';

export function queuesCommand(): Command {
  return new Command('queues')
    .description('event queues on the hold model: the kernel’s ladder, a 4-ary heap, a calendar queue')
    .option('--events <N>', 'events held in each measurement', wholeNumber(1000, 1e9), 1_000_000)
    .option('--seed <S>', 'seed of the loads', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ events, seed, json }: { events: number; seed: string; json?: boolean }) => {
      const { compareQueues } = await import('@braess/bench');
      await benchSession(json === true, (session) => compareQueues({ ...session, operations: events, seed }), describe);
    });
}

function describe({ rows, seed }: QueueComparison): string {
  const table = textTable(
    ['load', 'pending', 'kernel', '4-ary heap', 'calendar', 'fastest', 'order'],
    rows.map(({ load, pending, nsPerEvent, fastest, hash }) => [
      load,
      fixed(pending),
      fixed(nsPerEvent.kernel),
      fixed(nsPerEvent['four-ary-heap']),
      fixed(nsPerEvent.calendar),
      fastest,
      hash,
    ]),
    ['left', 'right', 'right', 'right', 'right', 'left', 'left'],
  );
  return `${table}\nns an event held (one pop, one push); 'order' is the hash of what was popped, the same for all three; seed ${seed}`;
}
