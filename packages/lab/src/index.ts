export * from './run-scenario.js';
