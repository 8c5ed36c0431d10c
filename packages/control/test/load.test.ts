import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { builtInPolicyNames, chooseEngine, createRouterView, listPolicies, loadPolicy, policyKinds, policyTemplate } from '@braess/control';
import { type Program, type RunRecord, run } from '@braess/kernel';
import * as protocol from '@braess/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let directory: string;
const request = { request: 1, inputTokens: 64, outputTokens: 10, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };
const view = createRouterView({ stage: 0, blockTokens: 16, engines: [{ activeRequests: 1 }, { activeRequests: 5 }] });

const mostLoaded = `
import { defineRouterPolicy } from '@braess/control';
import { z } from 'zod';
export default defineRouterPolicy({
  name: 'most-loaded', description: 'Upside down.', parameters: z.object({ factor: z.number().default(1) }),
  cost: (view, engine, _request, { factor }) => -factor * view.engines.activeRequests[engine],
});
`;

function write(file: string, text: string): void {
  mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
  writeFileSync(path.join(directory, file), text);
}

const load = (policy: string, parameters = {}) => loadPolicy('router', { policy, parameters }, { baseDirectory: directory });
const choice = (policy: string) => chooseEngine(load(policy), view, request, null, () => 0);

async function loadProgramFrom(file: string): Promise<Program<{ baseDirectory: string }>> {
  const { default: program } = (await import(pathToFileURL(file).href)) as { default: Program<{ baseDirectory: string }> };
  return program;
}

beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'policies-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

describe('loading a policy', () => {
  it('finds a built-in by its name', () => {
    const bound = load('kv', { omega: 2 });
    expect([bound.policy.name, bound.source, bound.parameters]).toEqual(['kv', 'built-in', { omega: 2, tau: 0 }]);
  });

  it.each(['ts', 'mts', 'js', 'mjs'])('takes a .%s file with ES modules', (extension) => {
    const typed = extension.endsWith('ts') ? mostLoaded.replace('(view, engine,', '(view, engine: number,') : mostLoaded;
    write(`most-loaded.${extension}`, typed);
    expect(choice(`./most-loaded.${extension}`)).toBe(1);
    expect(load(`./most-loaded.${extension}`).source).toBe(path.join(directory, `most-loaded.${extension}`));
  });

  it('loads a file again when it, or one that it imports, has changed', () => {
    const own = `import { place } from './place.ts';\n${mostLoaded.replace(/cost: .*/, 'choose: () => PLACE,')}`;
    write('place.ts', 'export const place = 1;\n');
    write('changing.ts', own.replace('PLACE', 'place'));
    expect(choice('./changing.ts')).toBe(1);
    write('place.ts', 'export const place = 0; // Now the other one.\n');
    expect(choice('./changing.ts')).toBe(0);
    write('changing.ts', own.replace('PLACE', '1 - place'));
    expect(choice('./changing.ts')).toBe(1);
  });

  it('takes a .cjs file, a named export, and imports of its own', () => {
    write(
      'plain.cjs',
      `const { defineRouterPolicy } = require('@braess/control'); const { z } = require('zod');
      module.exports = defineRouterPolicy({ name: 'plain', description: 'Plain.', parameters: z.strictObject({}), choose: () => 1 });`,
    );
    expect(choice('./plain.cjs')).toBe(1);
    write('deep/part.ts', 'export const engine: number = 1;');
    write(
      'deep/two.ts',
      mostLoaded.replace('export default', 'export const first =') +
        "\nimport { engine } from './part.js';\nexport const second = { ...first, cost: undefined, choose: () => engine - 1 };",
    );
    expect(choice('./deep/two.ts#first')).toBe(1);
    expect(choice('./deep/two.ts#second')).toBe(0);
  });

  it('takes a package, also one that is an ES module and exports to import only', () => {
    write(
      'node_modules/lab-router/package.json',
      '{"name":"lab-router","version":"1.0.0","type":"module","exports":{".":{"import":"./main.js"}}}',
    );
    write('node_modules/lab-router/main.js', mostLoaded);
    write('node_modules/@lab/old/package.json', '{"name":"@lab/old","version":"1.0.0","main":"old.js"}');
    write(
      'node_modules/@lab/old/old.js',
      "const { defineRouterPolicy } = require('@braess/control'); exports.default = defineRouterPolicy({ name: 'old', description: 'Old.', parameters: require('zod').z.strictObject({}), choose: () => 1 });",
    );
    expect(choice('package:lab-router')).toBe(1);
    expect(choice('package:@lab/old')).toBe(1);
  });

  it('gives the policy the very messages of the cluster, and modules that the caller adds', () => {
    write(
      'same.ts',
      `import { submit } from '@braess/protocol'; import { extra } from '@braess/extra';
      import { defineActorPolicy } from '@braess/control'; import { z } from 'zod';
      export default defineActorPolicy({ name: 'same', description: 'Same.', parameters: z.strictObject({}), build: () => [submit, extra] });`,
    );
    const modules = { '@braess/extra': { extra: 42 } };
    const { policy } = loadPolicy('actor', { policy: './same.ts' }, { baseDirectory: directory, modules });
    const [submit, extra] = (policy.build as () => unknown as () => [unknown, unknown])();
    expect(submit).toBe(protocol.submit);
    expect(extra).toBe(42);
  });

  it('works inside a program that runs on worker threads, with the same result as on this thread', async () => {
    write(
      'fickle.ts',
      mostLoaded.replace(
        /cost: .*/,
        'createState: () => ({ asked: 0 }), choose: (view, _request, _parameters, state, random) => (++state.asked + Math.floor(8 * random())) % view.count,',
      ),
    );
    const url = (name: string): string => pathToFileURL(createRequire(import.meta.url).resolve(name)).href;
    write(
      'program.mjs',
      `
      import { chooseEngine, createRouterView, loadPolicy } from '${url('@braess/control')}';
      import { actorKind, defineProgram, message, record } from '${url('@braess/kernel')}';
      const tick = message('tick');
      const chosen = record('chosen', ['engine']);
      export default defineProgram(import.meta.url, 'plugged', (world, { baseDirectory }) => {
        const bound = loadPolicy('router', { policy: './fickle.ts' }, { baseDirectory });
        const view = createRouterView({ stage: 0, blockTokens: 16, engines: [{}, {}, {}] });
        const kind = actorKind({
          name: 'asker', messages: { tick }, streams: ['router'],
          state: () => ({ policy: bound.policy.createState(bound.parameters, 3), left: 50 }),
          start: (_state, context) => { context.timer(tick, 10); },
          on: { tick: (state, _view, context) => {
            context.emit(chosen, chooseEngine(bound, view, { request: state.left, inputTokens: 1 }, state.policy, () => context.random('router')));
            if (--state.left > 0) context.timer(tick, 10);
          } },
        });
        world.actor('a', kind, undefined);
        world.actor('b', kind, undefined);
        world.lookahead('default', 'default', 1000);
      });`,
    );
    const program = await loadProgramFrom(path.join(directory, 'program.mjs'));
    const results: string[][] = [];
    for (const [transport, shards] of [
      ['memory', 1],
      ['threads', 1],
      ['threads', 2],
    ] as const) {
      const engines: string[] = [];
      const sink = {
        write: (records: readonly RunRecord[]) => void engines.push(...records.map((entry) => `${entry.actor}:${entry.fields[0]}`)),
      };
      const { fingerprint, recordFingerprint } = await run(
        program,
        { baseDirectory: directory },
        { transport, shards, sink, strict: true },
      );
      results.push([fingerprint, recordFingerprint, ...engines]);
    }
    expect(results[0]?.length).toBe(102);
    expect(new Set(results[0]?.slice(2)).size).toBe(6);
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });

  it.each([
    [
      'an unknown name',
      'fastest',
      "router policy 'fastest' is unknown: built in are round-robin, random, power-of-two, least-loaded, kv, ",
    ],
    ['a file that is not there', './nowhere.ts', 'nowhere.ts does not exist; paths count from'],
    ['one that the command line named', '/nowhere/policy.ts', /nowhere\/policy\.ts does not exist$/],
    ['a package that is not there', 'package:nowhere-to-be-found', "package 'nowhere-to-be-found' is not found from"],
  ])('refuses %s', (_name, policy, fault) => {
    expect(() => load(policy)).toThrow(fault);
  });

  it.each([
    ['wrong syntax', 'export default {', 'cannot be loaded'],
    ['top-level await', 'const a = await Promise.resolve(1); export default a;', 'policies load synchronously'],
    ['an error while loading', "throw new Error('not today');", 'cannot be loaded: not today'],
    [
      'no policy',
      'export const three = 3;',
      "its export 'default' is no policy (it exports three); use export default defineRouterPolicy({...})",
    ],
    [
      'another kind',
      mostLoaded
        .replace('defineRouterPolicy({', '((p) => ({ kind: "planner", plan() {}, ...p }))({')
        .replace('import { defineRouterPolicy }', 'import {}'),
      'is a policy of kind planner, not router',
    ],
    [
      'both cost and choose',
      mostLoaded.replace('cost:', 'choose: () => 0, cost:'),
      "must have either a function 'cost' or a function 'choose'",
    ],
    ['an async function', mostLoaded.replace(/cost:.*/, 'async cost() { return 0; },'), "has an async function 'cost'"],
    ['a bad name', mostLoaded.replace("'most-loaded'", "'Most Loaded'"), 'needs a name of lower-case words'],
    ['no schema', mostLoaded.replace('parameters:', 'parametres:'), 'needs parameters: a zod schema'],
  ])('refuses a file with %s, naming it', (name, text, fault) => {
    const file = `bad-${name.replaceAll(' ', '-')}.ts`;
    write(file, text);
    expect(() => load(`./${file}`)).toThrow(fault);
    expect(() => load(`./${file}`)).toThrow(path.join(directory, file));
  });

  it('refuses unknown parameters of a file, even where its schema would drop them', () => {
    write('most-loaded.ts', mostLoaded);
    expect(() => load('./most-loaded.ts', { factr: 2 })).toThrow('most-loaded.ts): parameters {"factr":2}');
  });
});

describe('policy list', () => {
  it('has every built-in with its parameters as JSON Schema', () => {
    expect(builtInPolicyNames('router').slice(0, 5)).toEqual(['round-robin', 'random', 'power-of-two', 'least-loaded', 'kv']);
    expect(builtInPolicyNames('router')).toContain('netkv');
    expect(builtInPolicyNames('oracle')).toContain('periodic');
    const kv = listPolicies('router').find((policy) => policy.name === 'kv');
    expect(kv?.parameters).toMatchObject({
      properties: { omega: { default: 1, minimum: 0 }, tau: { default: 0 } },
      additionalProperties: false,
    });
    expect(listPolicies().map((policy) => policy.kind)).toContain('planner');
  });
});

describe('policy new', () => {
  it('writes a policy of each kind that compiles, loads, and passes its own test', () => {
    const project = mkdtempSync(path.join(directory, 'new-'));
    const root = fileURLToPath(new URL('../../..', import.meta.url));
    symlinkSync(path.join(root, 'node_modules'), path.join(project, 'node_modules'));
    const tests: string[] = [];
    for (const kind of policyKinds) {
      for (const { fileName, text } of policyTemplate(kind, `my-${kind}`)) {
        writeFileSync(path.join(project, fileName), text);
        if (fileName.endsWith('.mjs')) tests.push(fileName);
      }
    }
    const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
    writeFileSync(
      path.join(project, 'tsconfig.json'),
      JSON.stringify({
        extends: path.join(root, 'tsconfig.base.json'),
        compilerOptions: { composite: false, incremental: false, noEmit: true, types: [] },
        include: ['*.ts'],
      }),
    );
    writeFileSync(path.join(project, 'package.json'), '{"type":"module"}');
    execFileSync(process.execPath, [compiler, '-p', project], { cwd: project });
    // One process for all: `node --test` would start one a file.
    writeFileSync(path.join(project, 'all.mjs'), tests.map((file) => `import './${file}';\n`).join(''));
    const output = execFileSync(process.execPath, ['--test-reporter=tap', 'all.mjs'], { cwd: project, encoding: 'utf8' });
    expect(output).toMatch(/# pass 9\n/);
    expect(output).toMatch(/# fail 0\n/);
  });

  it('refuses a kind or a name that cannot be', () => {
    expect(() => policyTemplate('rooter' as never, 'mine')).toThrow("policy kind 'rooter' is unknown; use one of router");
    expect(() => policyTemplate('router', 'My Policy')).toThrow('needs a name of lower-case words');
  });
});
