import { existsSync, readFileSync } from 'node:fs';
import { readNpz } from './npz.js';
import { type DynamoProfile, importDynamoProfile, type TableTiming } from './timing-table.js';

/**
 * Reads a result folder of NVIDIA Dynamo's profiler: `selected_prefill_interpolation/raw_data.npz` with
 * `selected_decode_interpolation/raw_data.npz`, or `prefill_raw_data.json` with `decode_raw_data.json`. Throws when neither pair is there.
 */
export function readDynamoProfile(folder: string): TableTiming {
  const pairs: [string, string][] = [
    [`${folder}/selected_prefill_interpolation/raw_data.npz`, `${folder}/selected_decode_interpolation/raw_data.npz`],
    [`${folder}/prefill_raw_data.json`, `${folder}/decode_raw_data.json`],
  ];
  for (const [prefill, decode] of pairs) {
    if (!existsSync(prefill) || !existsSync(decode)) continue;
    const fields = { ...fieldsOf(prefill), ...fieldsOf(decode) } as unknown as DynamoProfile;
    return importDynamoProfile(fields, folder);
  }
  throw new Error(`${folder}: no Dynamo profile; expected ${pairs.map((pair) => pair.join(' and ')).join(', or ')}`);
}

function fieldsOf(file: string): Record<string, unknown> {
  if (file.endsWith('.npz')) return Object.fromEntries(readNpz(readFileSync(file), file));
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new Error(`${file}: not valid JSON (${(error as Error).message})`);
  }
}
