/** What a heap of turns orders by. */
export interface TimedTurn {
  arrivalNs: number;
  session: number;
}

/** Adds a turn to a binary heap by arrival, then session. */
export function pushTurn<Turn extends TimedTurn>(heap: Turn[], turn: Turn): void {
  let index = heap.length;
  heap.push(turn);
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (!before(turn, heap[parent]!)) break;
    heap[index] = heap[parent]!;
    index = parent;
  }
  heap[index] = turn;
}

/** Takes the first turn; the heap must have one. */
export function popTurn<Turn extends TimedTurn>(heap: Turn[]): Turn {
  const top = heap[0]!;
  const last = heap.pop()!;
  if (heap.length === 0) return top;
  let index = 0;
  for (;;) {
    let child = index * 2 + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
    if (!before(heap[child]!, last)) break;
    heap[index] = heap[child]!;
    index = child;
  }
  heap[index] = last;
  return top;
}

function before(a: TimedTurn, b: TimedTurn): boolean {
  return a.arrivalNs < b.arrivalNs || (a.arrivalNs === b.arrivalNs && a.session < b.session);
}
