import type { ActorId, Context } from '@braess/kernel';
import { tokens } from '@braess/protocol';

/** A message has six fields, each a request. */
const requestsPerMessage = 6;

/**
 * The tokens of one pass on their way to the frontends: a message carries those of up to six requests, since one each would be nearly all messages of a run.
 * Reused by every engine of a thread within one handler; never state.
 */
const post = {
  /** By actor, its place below; -1 for one that nothing is for. */
  placeOf: new Int32Array(64).fill(-1),
  frontends: new Int32Array(8),
  counts: new Int32Array(8),
  requests: new Float64Array(8 * requestsPerMessage),
  used: 0,
};

/** Forgets what a handler that threw may have left. */
export function clearPost(): void {
  for (let place = 0; place < post.used; place++) post.placeOf[post.frontends[place]!] = -1;
  post.used = 0;
}

/** One more token of a request; it leaves when six are together, or with `sendPost`. */
export function postToken(context: Context, frontend: number, delayNs: number, request: number): void {
  const place = frontend < post.placeOf.length && post.placeOf[frontend]! >= 0 ? post.placeOf[frontend]! : openPlace(frontend);
  const count = post.counts[place]!;
  post.requests[place * requestsPerMessage + count] = request;
  post.counts[place] = count + 1;
  if (count + 1 === requestsPerMessage) sendPlace(context, place, delayNs);
}

/** Sends what is left, in the order in which the frontends came up. */
export function sendPost(context: Context, delayNs: number): void {
  for (let place = 0; place < post.used; place++) if (post.counts[place]! > 0) sendPlace(context, place, delayNs);
  clearPost();
}

function sendPlace(context: Context, place: number, delayNs: number): void {
  const { requests, counts } = post;
  const at = place * requestsPerMessage;
  for (let unused = at + counts[place]!; unused < at + requestsPerMessage; unused++) requests[unused] = -1;
  counts[place] = 0;
  const to = post.frontends[place]! as ActorId;
  context.send(
    to,
    tokens,
    delayNs,
    requests[at]!,
    requests[at + 1]!,
    requests[at + 2]!,
    requests[at + 3]!,
    requests[at + 4]!,
    requests[at + 5]!,
  );
}

function openPlace(frontend: number): number {
  while (frontend >= post.placeOf.length) post.placeOf = grown(post.placeOf, -1);
  const place = post.used++;
  if (place === post.frontends.length) {
    post.frontends = grown(post.frontends, 0);
    post.counts = grown(post.counts, 0);
    const requests = new Float64Array(2 * post.requests.length);
    requests.set(post.requests);
    post.requests = requests;
  }
  post.placeOf[frontend] = place;
  post.frontends[place] = frontend;
  post.counts[place] = 0;
  return place;
}

function grown(column: Int32Array<ArrayBuffer>, filler: number): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(2 * column.length).fill(filler);
  wider.set(column);
  return wider;
}
