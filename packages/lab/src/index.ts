export * from './bench-job.js';
export * from './reproduce/reproduce.js';
export * from './reproduce/rows.js';
export * from './reproduce/suite.js';
export * from './reproduce/suites.js';
export * from './run-scenario.js';
export * from './sweep.js';
export * from './window-bound.js';
