import { buildCommand } from './command.js';
import { exitCodeOf } from './exit-codes.js';
import { createLogger } from './logger.js';

// Whoever reads the output may have seen enough (`| head`): that ends the command, and is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

const logger = await createLogger();
try {
  await buildCommand(logger).parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error, (text) => process.stderr.write(`${text}\n`));
}
