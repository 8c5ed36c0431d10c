import { defineProgram, loadProgram } from '../../program.js';
import { recordedBuild } from '../recording.js';

/**
 * Any program with what chosen actors receive emitted as records. The target comes in this module's own URL (`?module=...&actors=...`), because a
 * program's build function may not await the import of another.
 */
const address = new URL(import.meta.url);
const module = address.searchParams.get('module');
if (module === null) throw new Error('recording-program needs ?module=URL of the program to record');
const target = await loadProgram(module);
const actors = new Set(JSON.parse(address.searchParams.get('actors') ?? '[]') as string[]);

export default defineProgram<unknown>(import.meta.url, target.name, recordedBuild(target, actors));
