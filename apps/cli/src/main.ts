import { buildCommand } from './command.js';
import { exitCodeOf } from './exit-codes.js';
import { createLogger } from './logger.js';

const logger = createLogger();
try {
  await buildCommand(logger).parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error, (text) => process.stderr.write(`${text}\n`));
}
