/** Parts of the kernel that its benches measure on their own. Not an interface: it may change with any version. */
export { packCheckpoint } from './checkpoint.js';
export { EventQueue } from './event-queue.js';
export { EventSlab, slotLayout } from './event-slab.js';
export { resolveLimits } from './limits.js';
export { MessageBatch, unpackMessages } from './message-batch.js';
export { Segment, type SegmentPlan, type SegmentResult, ShardPool } from './segment.js';
export { Watchdog } from './watchdog.js';
