export * from './control-messages.js';
export * from './fabric-messages.js';
export * from './fault-messages.js';
export * from './latency-buckets.js';
export * from './measure-messages.js';
export * from './request-messages.js';
export * from './tier-messages.js';
export * from './view-messages.js';
