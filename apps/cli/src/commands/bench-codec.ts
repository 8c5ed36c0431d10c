import type { CodecResult } from '@braess/bench';
import { Command } from 'commander';
import { benchSession } from '../bench-session.js';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

export function codecCommand(): Command {
  return new Command('codec')
    .description('encode and decode of batches of 64 messages, as they cross a shard')
    .option('--batches <N>', 'batches in each measurement', wholeNumber(9, 1e8), 90_000)
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ batches, json }: { batches: number; json?: boolean }) => {
      const { measureCodec } = await import('@braess/bench');
      await benchSession(json === true, (session) => measureCodec({ ...session, batches }), describe);
    });
}

function describe({ rows, batch }: CodecResult): string {
  const names = { numeric: 'four numeric fields', body: 'body of six fields' };
  const table = textTable(
    ['message', 'ns', 'at most', 'reached', 'bytes', 'hash'],
    rows.map(({ load, nsPerMessage, targetNs, bytesPerMessage, hash }) => [
      names[load],
      fixed(nsPerMessage),
      fixed(targetNs),
      verdict(nsPerMessage <= targetNs),
      fixed(bytesPerMessage, 1),
      hash,
    ]),
  );
  return `${table}\nencode and decode of one message in a batch of ${batch}, median of 9`;
}
