import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** configs/ of the repository, else the copy of it that the packed package carries. */
const [repository, packed] = ['../../../configs/', '../configs/'].map((place) => fileURLToPath(new URL(place, import.meta.url))) as [
  string,
  string,
];
const folder = existsSync(`${repository}schema.json`) ? repository : packed;

/** File of a scenario that jobs, studies and reproductions run, by its place in configs/. */
export function scenarioFile(name: string): string {
  return `${folder}${name}`;
}
