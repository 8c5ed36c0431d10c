import { destination, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

/** Logs to stderr: readable on a terminal, JSON lines elsewhere. Synchronous, so that nothing is lost at the exit. */
export function createLogger(): Logger {
  const onTerminal = process.stderr.isTTY === true;
  const stream = onTerminal ? pretty({ destination: 2, sync: true, ignore: 'pid,hostname' }) : destination({ fd: 2, sync: true });
  return pino({ level: 'warn', base: null }, stream);
}
