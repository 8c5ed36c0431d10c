import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { plainCsvHeader, plainCsvRows } from './plain-csv.js';
import type { RequestTable } from './requests.js';

/** Characters gathered before they go to the file. */
const WRITE_CHARACTERS = 65_536;

/** Writes batches of one trace as plain CSV (gzip when the name ends in .gz); reading it gives the same requests, to the nanosecond. */
export async function writePlainCsv(file: string, batches: Iterable<RequestTable> | AsyncIterable<RequestTable>): Promise<void> {
  const source = Readable.from(csvChunks(batches));
  if (file.endsWith('.gz')) await pipeline(source, createGzip(), createWriteStream(file));
  else await pipeline(source, createWriteStream(file));
}

async function* csvChunks(batches: Iterable<RequestTable> | AsyncIterable<RequestTable>): AsyncGenerator<string> {
  let text = '';
  let started = false;
  for await (const batch of batches) {
    if (!started) text += plainCsvHeader(batch);
    started = true;
    for (const row of plainCsvRows(batch)) {
      text += row;
      if (text.length < WRITE_CHARACTERS) continue;
      yield text;
      text = '';
    }
  }
  if (!started) throw new Error('writePlainCsv: no requests; expected at least one batch');
  if (text !== '') yield text;
}
