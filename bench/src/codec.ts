import { MessageBatch, slotLayout, unpackMessages } from '@braess/kernel/internals';
import { BenchError, type BenchOptions, median } from './measured.js';

const { bodyFlag } = slotLayout;

/** The limits, ns a message there and back in batches of 64. */
const codecTargetsNs = { numeric: 150, body: 600 } as const;

export interface CodecRow {
  readonly load: 'numeric' | 'body';
  /** Encode and decode, ns a message. */
  readonly nsPerMessage: number;
  readonly targetNs: number;
  readonly bytesPerMessage: number;
  /** Hash over what came back. */
  readonly hash: string;
}

export interface CodecResult {
  readonly batch: number;
  readonly batches: number;
  readonly rows: readonly CodecRow[];
  readonly interrupted: boolean;
}

interface Request {
  readonly requestId: number;
  readonly worker: number;
  readonly tokens: number;
  readonly cachedTokens: number;
  readonly sentNs: number;
  readonly tier: string;
}

const tiers = ['G1', 'G2', 'G3', 'G4'];
const samples = 9;

/**
 * The price of crossing a shard: batches of 64 appended, packed as msgpack, unpacked and read.
 * @throws BenchError when a message does not come back as it was sent.
 */
export function measureCodec(options: BenchOptions & { readonly batches: number; readonly batch?: number }): CodecResult {
  const { batches, batch = 64, signal, progress } = options;
  const rows: CodecRow[] = [];
  for (const load of ['numeric', 'body'] as const) {
    if (signal?.aborted) return { batch, batches, rows, interrupted: true };
    progress?.(rows.length / 2, load);
    rows.push(measureLoad(load, batch, Math.max(1, Math.ceil(batches / samples))));
  }
  return { batch, batches, rows, interrupted: false };
}

function measureLoad(load: 'numeric' | 'body', batch: number, batchesPerSample: number): CodecRow {
  const outgoing = new MessageBatch(2 ** 29);
  let sent = 0x243f6a88;
  let received = 0x243f6a88;
  let bytes = 0;
  const sendNumeric = (number: number): void => {
    outgoing.append(number * 1000, number, number & 1023, (number * 7) & 1023, 3, 4);
    outgoing.storeFields(4, number, number + 0.5, -number, 0, 0, 0);
    sent = fold(fold(sent, number), number * 3 + 1);
  };
  const sendBody = (number: number): void => {
    outgoing.append(number * 1000, number, number & 1023, (number * 7) & 1023, 3 | bodyFlag, 0);
    const request: Request = {
      requestId: number,
      worker: number & 1023,
      tokens: (number & 4095) + 1,
      cachedTokens: number & 255,
      sentNs: number * 1000,
      tier: tiers[number & 3] as string,
    };
    outgoing.appendBody(request);
    sent = fold(fold(sent, number), request.tokens + request.cachedTokens + request.tier.charCodeAt(1));
  };
  const send = load === 'numeric' ? sendNumeric : sendBody;
  const crossOnce = (first: number): void => {
    for (let i = 0; i < batch; i++) send(first + i);
    const packed = outgoing.pack();
    bytes = packed.byteLength;
    unpackMessages(packed, (_timeNs, sequence, _sender, _target, _kindWord, words, fieldsAt, _fieldCount, body) => {
      if (body === undefined) {
        received = fold(fold(received, sequence), 2 * (words[fieldsAt] as number) - (words[fieldsAt + 2] as number) + 1);
      } else {
        const request = body as Request;
        received = fold(fold(received, request.requestId), request.tokens + request.cachedTokens + request.tier.charCodeAt(1));
      }
    });
  };
  let number = 0;
  const cross = (count: number): void => {
    for (let i = 0; i < count; i++, number += batch) crossOnce(number);
  };
  cross(batchesPerSample); // Past the compiler.
  const nsPerMessage: number[] = [];
  for (let sample = 0; sample < samples; sample++) {
    const begun = performance.now();
    cross(batchesPerSample);
    nsPerMessage.push(((performance.now() - begun) * 1e6) / (batchesPerSample * batch));
  }
  if (sent !== received)
    throw new BenchError(`codec, load '${load}': what came back (${hex(received)}) is not what was sent (${hex(sent)})`);
  return {
    load,
    nsPerMessage: median(nsPerMessage),
    targetNs: codecTargetsNs[load],
    bytesPerMessage: bytes / batch,
    hash: hex(received),
  };
}

function fold(hash: number, value: number): number {
  const mixed = Math.imul(hash ^ value, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

function hex(hash: number): string {
  return (hash >>> 0).toString(16).padStart(8, '0');
}
