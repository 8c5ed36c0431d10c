export { type CodecResult, measureCodec } from './codec.js';
export { type DecideResult, measureDecisions } from './decide.js';
export { type GridResult, measureGrid } from './grid.js';
export { type GrowthResult, measureGrowth } from './growth.js';
export { BenchError, type BenchOptions } from './measured.js';
export { default as phold } from './phold.js';
export { comparePhold, type PholdResult, pholdPlan } from './phold-comparison.js';
export { compareQueues, type QueueComparison } from './queues/compare-queues.js';
export { measureStartup, type StartupResult } from './startup.js';
