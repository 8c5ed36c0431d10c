import { pathToFileURL } from 'node:url';
import { KernelError } from './errors.js';
import { buildModel, type Model, type World } from './model.js';

/**
 * A program: a build function that declares cells and actors from plain-data parameters. Every thread builds it anew from its module, so the
 * function must declare the same each time (no clocks, no Math.random).
 */
export interface Program<Parameters = unknown> {
  readonly name: string;
  readonly build: (world: World, parameters: Parameters) => void;
  /** URL of the module whose default export is this program; undefined for a program that lives on one thread only. */
  readonly module: string | undefined;
}

/**
 * Defines a program: `export default defineProgram(import.meta.url, 'name', (world, parameters) => {...})`.
 * @param module URL of the module that exports it as default, or undefined when it is only run inside this thread.
 */
export function defineProgram<Parameters = void>(
  module: string | undefined,
  name: string,
  build: (world: World, parameters: Parameters) => void,
): Program<Parameters> {
  return { name, build, module };
}

/** Loads a program by URL or path. @throws KernelError `bad-model` naming the module and what is wrong with it. */
export async function loadProgram(module: string): Promise<Program> {
  const url = module.includes('://') ? module : pathToFileURL(module).href;
  let loaded: { default?: Partial<Program> };
  try {
    loaded = (await import(url)) as { default?: Partial<Program> };
  } catch (error) {
    throw new KernelError(
      'bad-model',
      `program module ${module} cannot be loaded: ${(error as Error).message}; threads run built JavaScript files`,
      {},
      error,
    );
  }
  const program = loaded.default;
  if (typeof program?.build !== 'function' || typeof program.name !== 'string') {
    throw new KernelError(
      'bad-model',
      `program module ${module} has no program as its default export; use export default defineProgram(...)`,
    );
  }
  return program as Program;
}

export function modelOf<Parameters>(program: Program<Parameters>, parameters: Parameters): Model {
  return buildModel(program.name, program.build, parameters);
}
