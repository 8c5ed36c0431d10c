export * from './run-scenario.js';
export * from './sweep.js';
