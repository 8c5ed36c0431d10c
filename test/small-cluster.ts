import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { runScenario, type ScenarioSummary } from '@braess/lab';
import { openRunDatabase } from '@braess/telemetry';
import { afterAll } from 'vitest';

/** Two prefill and three decode engines on one server, sixty equal requests. */
export const smallScenario = `name: small
model: { name: Llama-3.1-8B }
serving:
  - { count: 2, role: prefill, blockTokens: 64 }
  - { count: 3, role: decode, blockTokens: 64 }
workload:
  requests: 60
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 20 }
    inputTokens: { kind: uniform, minTokens: 200, maxTokens: 2000 }
    outputTokens: { kind: constant, tokens: 40 }
`;

/** Names of the engines of \`smallScenario\` in the order of their numbers. */
export const smallEngines = [0, 1, 2, 3, 4].map((engine) => `pod0/rack0/node0/engine${engine}`);

export interface ProjectRun {
  readonly summary: ScenarioSummary;
  query(sql: string): Promise<Record<string, unknown>[]>;
}

/** A user's project: a folder with a scenario and policies, gone after the tests of the file. */
export interface Project {
  readonly folder: string;
  path(name: string): string;
  write(name: string, text: string): string;
  run(scenario: string, settings?: readonly string[], shards?: number): Promise<ProjectRun>;
  /** On one shard in this thread and on two in worker threads; refuses results that differ. */
  runOnShards(scenario: string, settings?: readonly string[]): Promise<ProjectRun>;
}

export function createProject(): Project {
  const folder = mkdtempSync(join(tmpdir(), 'braess-project-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let runs = 0;
  const project: Project = {
    folder,
    path: (name) => join(folder, name),
    write(name, text) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    },
    async run(scenario, settings = [], shards = 1) {
      const out = join(folder, `runs/${runs++}`);
      // One shard without threads: a further way to the same result, and quicker.
      const transport = shards === 1 ? 'memory' : 'threads';
      const summary = await runScenario({ file: join(folder, scenario), settings, shards, out, transport });
      return { summary, query: (sql) => queryRun(summary.folder, sql) };
    },
    async runOnShards(scenario, settings = []) {
      const one = await project.run(scenario, settings, 1);
      const two = await project.run(scenario, settings, 2);
      const prints = [one, two].map(({ summary }) => `${summary.shards} ${summary.fingerprint} ${summary.recordFingerprint}`);
      if (prints[0]?.slice(2) !== prints[1]?.slice(2)) throw new Error(`1 and 2 shards differ: ${prints.join(' and ')}`);
      if (two.summary.shards !== 2) throw new Error(`asked for 2 shards, got ${two.summary.shards}`);
      return one;
    },
  };
  return project;
}

async function queryRun(folder: string, sql: string): Promise<Record<string, unknown>[]> {
  const database = await openRunDatabase(folder);
  try {
    const { columns, rows } = await database.query(sql);
    return rows.map((row) => Object.fromEntries(columns.map((name, column) => [name, row[column]])));
  } finally {
    database.close();
  }
}
