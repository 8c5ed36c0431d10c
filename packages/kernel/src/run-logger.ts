import type { Logger } from 'pino';

/** What a run uses of a logger. */
export interface RunLogger {
  warn(what: object | string, text?: string): void;
  error(what: unknown, text?: string): void;
}

/** A logger that throws must not change the run, or hide its error. */
export function guardedLogger(logger: Logger): RunLogger {
  const guarded = (level: 'warn' | 'error') => (what: unknown, text?: string) => {
    try {
      logger[level](what, text);
    } catch (error) {
      process.emitWarning(`the run's logger threw: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  return { warn: guarded('warn'), error: guarded('error') };
}
