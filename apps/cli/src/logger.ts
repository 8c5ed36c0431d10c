import { destination, type Logger, pino } from 'pino';

/** Logs to stderr: readable on a terminal, JSON lines elsewhere. Synchronous, so that nothing is lost at the exit. */
export async function createLogger(): Promise<Logger> {
  const onTerminal = process.stderr.isTTY === true;
  const stream = onTerminal
    ? (await import('pino-pretty')).default({ destination: 2, sync: true, ignore: 'pid,hostname' })
    : destination({ fd: 2, sync: true });
  return pino({ level: 'warn', base: null }, stream);
}
