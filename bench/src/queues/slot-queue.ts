/** What every queue of the comparison offers: the kernel's own, on the kernel's slab. */
export interface SlotQueue {
  push(slot: number): void;
  /** Takes the first event before `boundNs`, or returns -1. */
  popBefore(boundNs: number): number;
}
