/** The real clock, taken before the guards hide it from handlers. Only the machinery around handlers may use it. */
const performanceNow = performance.now.bind(performance);
const timeOrigin = performance.timeOrigin;

/** Milliseconds of wall time since this thread began. */
export function wallMs(): number {
  return performanceNow();
}

/** Milliseconds since the Unix epoch, comparable between threads. */
export function epochMs(): number {
  return timeOrigin + performanceNow();
}
