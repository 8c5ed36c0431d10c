import { KernelError } from './errors.js';

type Restore = () => void;

/** What a handler must not touch, and what to use instead. */
const replacements: readonly [holder: string, name: string, instead: string][] = [
  ['Math', 'random', 'context.random(stream)'],
  ['Math', 'pow', "power from '@braess/kernel' (Math.pow differs between Node versions)"],
  ['', 'crypto', 'context.random(stream)'],
  ['performance', 'now', 'context.now'],
  ['performance', 'timeOrigin', 'context.now'],
  ['performance', 'mark', 'context.now'],
  ['performance', 'measure', 'context.now'],
  ['performance', 'toJSON', 'context.now'],
  ['Intl', 'DateTimeFormat', 'context.now'],
  ['process', 'hrtime', 'context.now'],
  ['process', 'uptime', 'context.now'],
  ['process', 'cpuUsage', 'context.now'],
  ['process', 'nextTick', 'context.send(..., 0)'],
  ['Promise.prototype', 'then', 'context.send(..., 0)'],
  ['', 'setTimeout', 'context.timer(...)'],
  ['', 'setInterval', 'context.timer(...)'],
  ['', 'setImmediate', 'context.send(..., 0)'],
  ['', 'queueMicrotask', 'context.send(..., 0)'],
  ['', 'fetch', 'inject, which logs and replays external input'],
  ['', 'console', "context.emit(record), or the run's observer and trace"],
  ['process', 'stdout', "context.emit(record), or the run's observer and trace"],
  ['process', 'stderr', "context.emit(record), or the run's observer and trace"],
  ['', 'SharedArrayBuffer', 'messages (actors share nothing)'],
  ['', 'Atomics', 'messages (actors share nothing)'],
  ['', 'WeakRef', 'strong references (collection is not reproducible)'],
  ['', 'FinalizationRegistry', 'strong references (collection is not reproducible)'],
];

/**
 * Hides clocks, random numbers, timers, output and shared memory from handlers until the returned function is called: using one throws and names the
 * replacement. The kernel took its own clock and atomics before.
 */
export function installGuards(): Restore {
  const restores: Restore[] = [];
  for (const [holder, name, instead] of replacements) {
    const owner = ownerOf(holder);
    const label = holder === '' ? name : `${holder}.${name}`;
    restores.push(replace(owner, name, forbid(label, instead)));
  }
  const RealDate = Date;
  const guarded = new Proxy(RealDate, {
    construct: () => refuse('Date', 'context.now'),
    apply: () => refuse('Date', 'context.now'),
    get: (target, key) => (key === 'now' ? () => refuse('Date.now', 'context.now') : Reflect.get(target, key)),
  });
  restores.push(replace(globalThis as unknown as Record<string, unknown>, 'Date', guarded));
  return () => {
    for (const restore of restores.reverse()) restore();
  };
}

/** The object at a dotted path of globals. */
function ownerOf(path: string): Record<string, unknown> {
  let owner = globalThis as unknown as Record<string, unknown>;
  for (const step of path === '' ? [] : path.split('.')) owner = owner[step] as Record<string, unknown>;
  return owner;
}

function replace(owner: Record<string, unknown>, name: string, value: unknown): Restore {
  const descriptor = Object.getOwnPropertyDescriptor(owner, name);
  Object.defineProperty(owner, name, { value, configurable: true, writable: true, enumerable: descriptor?.enumerable ?? false });
  return () => {
    if (descriptor === undefined) delete owner[name];
    else Object.defineProperty(owner, name, descriptor);
  };
}

function forbid(label: string, instead: string): unknown {
  // A declaration, not an arrow: `new SharedArrayBuffer()` must reach the trap, so it has to be a constructor.
  function trap(): never {
    return refuse(label, instead);
  }
  // Namespaces such as Atomics are read, constructors are called with new: all of it is refused.
  return new Proxy(trap, {
    get: () => refuse(label, instead),
    construct: () => refuse(label, instead),
    apply: () => refuse(label, instead),
  });
}

function refuse(label: string, instead: string): never {
  throw new KernelError(
    'forbidden',
    `${label} inside a handler: a run is reproducible and does no input or output of its own; use ${instead}`,
  );
}
