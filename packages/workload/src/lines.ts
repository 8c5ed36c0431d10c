import { createReadStream } from 'node:fs';
import { TextDecoder } from 'node:util';
import { createGunzip } from 'node:zlib';
import { TraceError } from './trace-error.js';

/** A longer line is not a trace: the longest real one (126k tokens in blocks of 16, 20-digit hashes) has 170 kB. */
const MAX_LINE_CHARACTERS = 16 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

/**
 * The lines of a text file, plain or gzip (told by the first two bytes, not the name), a batch a chunk. A byte order mark and carriage
 * returns before line feeds are dropped. Errors: unreadable file, broken or truncated gzip, bytes that are not UTF-8, endless line.
 */
export async function* readLines(file: string): AsyncGenerator<string[]> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  let lineCount = 0;
  const chunks = fileChunks(file);
  try {
    for (;;) {
      const next = await nextChunk(chunks, file, lineCount);
      rest += decodeChunk(decoder, next, file, lineCount);
      if (next === undefined) break;
      const lines = rest.split('\n');
      rest = lines.pop()!;
      if (rest.length > MAX_LINE_CHARACTERS)
        throw new TraceError(file, lineCount + lines.length + 1, '', 'line longer than 16 MB; not a trace');
      dropCarriageReturns(lines);
      lineCount += lines.length;
      if (lines.length > 0) yield lines;
    }
    if (rest !== '') yield dropCarriageReturns([rest]);
  } finally {
    // Also where the reader stops early: the file would stay open.
    await chunks.return(undefined);
  }
}

async function nextChunk(chunks: AsyncGenerator<Buffer>, file: string, lineCount: number): Promise<Buffer | undefined> {
  try {
    const next = await chunks.next();
    return next.done === true ? undefined : next.value;
  } catch (error) {
    throw readError(error, file, lineCount);
  }
}

function decodeChunk(decoder: TextDecoder, chunk: Buffer | undefined, file: string, lineCount: number): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
  } catch {
    throw new TraceError(
      file,
      lineCount + 1,
      '',
      'here or soon after stand bytes that are not UTF-8 text; expected a text file, plain or gzip',
    );
  }
}

/** The file's bytes, unpacked when they begin as gzip does (RFC 1952: 1f 8b). */
async function* fileChunks(file: string): AsyncGenerator<Buffer> {
  const source = createReadStream(file, { highWaterMark: CHUNK_BYTES });
  try {
    const raw = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    const first = await raw.next();
    if (first.done === true) return;
    if (first.value[0] !== 0x1f || first.value[1] !== 0x8b) {
      yield first.value;
      for (let next = await raw.next(); next.done !== true; next = await raw.next()) yield next.value;
      return;
    }
    yield* unpack(first.value, raw);
  } finally {
    source.destroy();
  }
}

async function* unpack(first: Buffer, raw: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const feed = async (): Promise<void> => {
    try {
      for (let chunk: Buffer | undefined = first; chunk !== undefined; ) {
        if (gunzip.destroyed) return;
        if (!gunzip.write(chunk)) await drained(gunzip);
        const next = await raw.next();
        chunk = next.done === true ? undefined : next.value;
      }
      gunzip.end();
    } catch (error) {
      gunzip.destroy(error as Error);
    }
  };
  const feeding = feed();
  for await (const chunk of gunzip) yield chunk as Buffer;
  await feeding;
}

/** Resolves when the stream takes more, or has ended for whatever reason. */
function drained(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done);
      stream.off('close', done);
      resolve();
    };
    stream.on('drain', done);
    stream.on('close', done);
  });
}

function readError(error: unknown, file: string, lineCount: number): Error {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code === 'ENOENT') return new TraceError(file, 0, '', 'no such file');
  if (code === 'Z_BUF_ERROR')
    return new TraceError(file, lineCount + 1, '', 'the gzip stream ends early (truncated file); copy or download it again');
  if (code.startsWith('Z_')) return new TraceError(file, lineCount + 1, '', `broken gzip data (${(error as Error).message})`);
  return new TraceError(file, 0, '', `cannot be read: ${(error as Error).message}`);
}

function dropCarriageReturns(lines: string[]): string[] {
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index]!;
    if (line.charCodeAt(line.length - 1) === 13) lines[index] = line.slice(0, -1);
  }
  return lines;
}
