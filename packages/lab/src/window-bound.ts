import type { RunObserver } from '@braess/kernel';

/** How the events of a run fell into synchronisation windows. */
export interface WindowCounts {
  readonly windows: number;
  readonly events: number;
  readonly eventsPerWindow: number;
  /** Events over the sum of the busiest shard's of each window: no synchronisation, however cheap, can make these shards faster than one by more. */
  readonly bound: number;
}

/** Listens to a run's windows; `read` after it has ended. */
export function countWindows(observer: RunObserver): { read(): WindowCounts } {
  const seen: number[] = [];
  const busiest: number[] = [];
  let events = 0;
  observer.on('window', (window) => {
    const index = seen[window.shard] ?? 0;
    seen[window.shard] = index + 1;
    busiest[index] = Math.max(busiest[index] ?? 0, window.events);
    events += window.events;
  });
  return {
    read() {
      const longest = busiest.reduce((sum, count) => sum + count, 0);
      const windows = busiest.length;
      return { windows, events, eventsPerWindow: windows === 0 ? 0 : events / windows, bound: longest === 0 ? 1 : events / longest };
    },
  };
}
