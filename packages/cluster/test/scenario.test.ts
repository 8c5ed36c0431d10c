import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  editDistance,
  loadWorkload,
  nearestName,
  parseScenario,
  planCluster,
  readScenario,
  ScenarioError,
  scenarioJsonSchema,
} from '@braess/cluster';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const smallest = `serving:
  - count: 2
workload:
  requests: 10
  source: { kind: mooncake-like }
`;

function problems(text: string, settings: readonly string[] = []): string[] {
  try {
    planCluster(parseScenario(text, 'test.yaml', settings));
  } catch (error) {
    if (error instanceof ScenarioError) return error.message.split('\n');
    throw error;
  }
  return [];
}

function files(contents: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'braess-scenario-'));
  for (const [name, text] of Object.entries(contents)) writeFileSync(join(folder, name), text);
  return folder;
}

describe('a mistake is named with file, line, column, value, what is allowed and the nearest name', () => {
  const cases: [string, string, string][] = [
    ['an unknown section', `${smallest}clustr: {}\n`, 'test.yaml:6:1: clustr is no option; did you mean "cluster"?'],
    [
      'an unknown option',
      `${smallest}router: { maxAtempts: 1 }\n`,
      'test.yaml:6:11: router.maxAtempts is no option; did you mean "maxAttempts"?',
    ],
    [
      'a wrong word',
      smallest.replace('count: 2', 'count: 2\n    role: prefil'),
      'test.yaml:3:5: serving[0].role is "prefil"; must be one of aggregated, prefill, decode; did you mean "prefill"?',
    ],
    ['a fraction', smallest.replace('2', '2.5'), 'test.yaml:2:5: serving[0].count is 2.5; must be a whole number'],
    ['a text for a number', smallest.replace('2', 'two'), 'test.yaml:2:5: serving[0].count is "two"; must be a finite number'],
    ['too small', smallest.replace('2', '0'), 'test.yaml:2:5: serving[0].count is 0; must be at least 1'],
    [
      'a wrong kind',
      smallest.replace('mooncake-like', 'moncake-like'),
      'test.yaml:5:13: workload.source.kind is "moncake-like"; must be one of trace, independent, sessions, mooncake-like, mixture; did you mean "mooncake-like"?',
    ],
    ['a missing section', 'serving: [{ count: 1 }]\n', 'test.yaml:1:1: workload is missing; must be a map'],
    [
      'an unknown GPU',
      `${smallest}cluster: { gpu: H10 }\n`,
      'test.yaml:6:12: cluster.gpu is "H10", no known GPU; known are A100-80G, H100',
    ],
    ['an unknown model', `${smallest}model: { name: Llama-70B }\n`, 'did you mean "Llama-3.1-70B"?'],
    [
      'an unknown profile',
      smallest.replace('count: 2', 'count: 2\n    timing: { kind: roofline, profile: fast }'),
      'is "fast", no known engine profile',
    ],
    [
      'a map without its kind, and a key that stands elsewhere',
      `${smallest}  client: { timeoutMs: 1 }\n`,
      'test.yaml:6:3: workload.client.kind is missing; must be one of open-loop, closed-loop, policy; timeoutMs is none of its options, there is workload.retry.timeoutMs',
    ],
    [
      'an option of another place',
      `${smallest}router: { seriesSeconds: 1 }\n`,
      'test.yaml:6:11: router.seriesSeconds is no option; there is telemetry.seriesSeconds; options here: admission,',
    ],
    [
      'a value that is neither of two things',
      `${smallest}telemetry: { poa: { slopeSeconds: 1, slotsPerWorker: many } }\n`,
      'telemetry.poa.slotsPerWorker is "many"; must be a whole number or unlimited',
    ],
    [
      'a tier too slow for simulated time',
      `${smallest}faults: [{ kind: tier-speed, atSeconds: 1, tier: storage/g4, factor: 1.0e-12 }]\n`,
      'faults[0].factor is 1e-12; must be 0 (dead, out) or at least 0.000001',
    ],
    [
      'a plan for an engine that is not there',
      `serving: [{ count: 2, role: prefill }, { count: 2, role: decode }]
workload: { requests: 1, source: { kind: mooncake-like } }
planner:
  policy: schedule
  parameters: { changes: [{ atMs: 1, engine: pod0/rack0/node0/engine4, role: decode }] }
`,
      'test.yaml:5:3: planner.parameters name the engine "pod0/rack0/node0/engine4", which this cluster does not have; there are 4: pod0/rack0/node0/engine0,',
    ],
    [
      'lost telemetry of an oracle that no actor runs',
      `serving: [{ count: 2, role: prefill }, { count: 2, role: decode }]
workload: { requests: 1, source: { kind: mooncake-like } }
router: { decode: { policy: netkv }, oracle: { policy: static-tier } }
faults: [{ kind: telemetry-loss, atSeconds: 1, actor: control/oracle, lost: true }]
`,
      'test.yaml:4:48: faults[0].actor is "control/oracle", no engine, frontend or oracle that listens of this cluster; there are 5: pod0/rack0/node0/engine0,',
    ],
    [
      'an unknown parameter of a policy',
      `${smallest}router:\n  policy: kv\n  parameters: { omegga: 1 }\n`,
      'test.yaml:8:17: router.parameters.omegga does not fit: router policy \'kv\' (built-in): parameters {"omegga":1}: Unrecognized key: "omegga"; it takes omega, tau',
    ],
    [
      'a wrong value of one, in a list',
      `${smallest}router: { policy: kv }\ncontroller:\n  policy: adaptive\n  parameters:\n    thresholds:\n      - 1\n      - x\n`,
      'controller.parameters.thresholds[1] does not fit: ',
    ],
    [
      'an unknown parameter of an eviction policy',
      smallest.replace('count: 2', 'count: 2\n    eviction: s3-fifo\n    evictionParameters: { small: 1 }'),
      "test.yaml:4:5: serving[0].evictionParameters do not fit: eviction policy 's3-fifo': unknown parameter 'small'; it takes smallShare",
    ],
    [
      'an unknown eviction policy',
      smallest.replace('count: 2', 'count: 2\n    eviction: mru'),
      'is unknown; write a file as ./mru.ts and a package as package:mru; built in are lru, fifo, lfu, s3-fifo, cost-aware, lineage; did you mean "lru"?',
    ],
    ['two documents', `${smallest}---\n${smallest}`, 'test.yaml:6:1: not valid YAML: a second document begins here; a scenario is one'],
    ['not YAML', 'serving: [', 'test.yaml:1:11: not valid YAML'],
    ['a list instead of a map', '- 1\n', 'test.yaml:1:1: a scenario must be a map of sections'],
    ['a key twice', 'serving: []\nserving: []\n', 'test.yaml:2:1: not valid YAML: Map keys must be unique'],
  ];
  for (const [name, text, expected] of cases) {
    it(name, () => {
      const found = problems(text);
      expect(found.join('\n')).toContain(expected);
    });
  }

  it('all mistakes of a file, in the order of the lines', () => {
    const found = problems(`seed: -1\n${smallest.replace('2', '0')}routr: {}\n`);
    expect(found.map((line) => line.split(':').slice(1, 3).join(':'))).toEqual(['1:1', '3:5', '7:1']);
  });

  it('in the file that has it, when it comes from an extended one', () => {
    const folder = files({ 'base.yaml': `${smallest}router:\n  polcy: kv\n`, 'top.yaml': 'extends: base.yaml\nseed: 3\n' });
    expect(() => readScenario(join(folder, 'top.yaml'))).toThrow(
      `${join(folder, 'base.yaml')}:7:3: router.polcy is no option; did you mean "policy"?`,
    );
  });

  it('in the setting that has it', () => {
    expect(problems(smallest, ['router.polcy=kv'])[0]).toMatch(/^--set router\.polcy=kv: router\.polcy is no option/);
    expect(problems(smallest, ['serving[1].count=3'])[0]).toContain('use an index from [0] to [0]');
    expect(problems(smallest, ['seed'])[0]).toContain('must have the form path=value');
    expect(problems(smallest, ['seed.x=1'])[0]).toBe('--set seed.x=1: seed is {"x":1}; must be a whole number or a text');
    // What a file cannot hold, a setting cannot.
    expect(problems(smallest, ['name=*a'])[0]).toBe('--set name=*a: name refers to *a, which is not defined before it');
    expect(problems(smallest, ['seed=!!binary aGk='])[0]).toContain('must be a number, text, true, false, a list or a map');
    expect(problems(smallest, ['router={__proto__: 1}'])[0]).toContain('router.__proto__ is not a key a scenario can hold');
    expect(problems(smallest, ['router=&a [*a]'])[0]).toContain('is nested more than 32 deep');
  });
});

describe('extends and settings', () => {
  it('merge maps, replace lists and scalars, null takes away, the kind of a map starts it anew', () => {
    const folder = files({
      'base.yaml': `${smallest}router: { policy: kv, parameters: { omega: 2 } }\nuntilSeconds: 5\n`,
      'top.yaml':
        'extends: base.yaml\nserving:\n  - count: 7\nrouter: { parameters: { tau: 0.5 } }\nuntilSeconds: null\nworkload: { source: { kind: trace, file: t.csv } }\n',
    });
    const { scenario } = readScenario(join(folder, 'top.yaml'), ['router.maxAttempts=9', 'seed=abc']);
    expect(scenario.serving.map((group) => group.count)).toEqual([7]);
    expect(scenario.router).toMatchObject({ policy: 'kv', parameters: { omega: 2, tau: 0.5 }, maxAttempts: 9 });
    expect(scenario.untilSeconds).toBeUndefined();
    expect(scenario.workload.source).toMatchObject({ kind: 'trace', file: 't.csv' });
    expect(scenario.workload.requests).toBe(10);
    expect(scenario.seed).toBe('abc');
  });

  it('are UTF-8: other bytes are refused, not read as replacement characters', () => {
    const folder = files({ 'utf-16.yaml': '', 'latin-1.yaml': '', 'marked.yaml': `\uFEFF${smallest}` });
    writeFileSync(join(folder, 'utf-16.yaml'), Buffer.from(`\uFEFF${smallest}`, 'utf16le'));
    writeFileSync(join(folder, 'latin-1.yaml'), Buffer.from(`name: gr\u00f6\u00dfe\n${smallest}`, 'latin1'));
    for (const name of ['utf-16.yaml', 'latin-1.yaml'])
      expect(() => readScenario(join(folder, name))).toThrow(`cannot read scenario "${join(folder, name)}": it is not UTF-8 text`);
    expect(readScenario(join(folder, 'marked.yaml')).scenario.workload.requests).toBe(10);
  });

  it('refuse to run in circles, and files that are not there', () => {
    const folder = files({ 'a.yaml': 'extends: b.yaml\n', 'b.yaml': 'extends: a.yaml\n', 'c.yaml': '\nextends: no.yaml\n' });
    expect(() => readScenario(join(folder, 'a.yaml'))).toThrow('extends itself');
    expect(() => readScenario(join(folder, 'c.yaml'))).toThrow(
      /c\.yaml:2:1: extends cannot read scenario .*no\.yaml": there is no such file; check the path/,
    );
    expect(() => readScenario(join(folder, 'none.yaml'))).toThrow('none.yaml": there is no such file; check the path');
    expect(() => readScenario(folder)).toThrow(`cannot read scenario "${folder}": it is a folder; give a file`);
  });
});

describe('requests that cannot be made are refused at the place of their mistake', () => {
  it.each([
    ['a trace that is not there', 'source: { kind: trace, file: none.csv }', 'workload.source.file is "none.csv": there is no file /'],
    ['a folder for a trace', 'source: { kind: trace, file: / }', 'workload.source.file is "/": / is a folder; give a file'],
    [
      'two tenants of a name',
      'requests: 1\n  tenants: [{ name: a, share: 1 }, { name: a, share: 1 }]\n  source: { kind: mooncake-like }',
      'workload.tenants cannot be told apart: tenants[1].name is "a"; must be new and not empty',
    ],
    [
      'lengths upside down',
      `requests: 1
  source:
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 1 }
    inputTokens: { kind: uniform, minTokens: 9, maxTokens: 5 }
    outputTokens: { kind: constant, tokens: 1 }`,
      'workload.source cannot be generated: inputTokens.minTokens 9 is above maxTokens 5',
    ],
  ])('%s', async (_name, workload, expected) => {
    const read = parseScenario(`serving: [{ count: 1 }]\nworkload:\n  ${workload}\n`, 'test.yaml');
    await expect(loadWorkload(read)).rejects.toThrow(expected);
    await expect(loadWorkload(read)).rejects.toThrow(/^test\.yaml:\d/);
  });
});

describe('what cannot be is refused', () => {
  it('a model that does not fit, with the sums', () => {
    const text = smallest.replace('count: 2', 'count: 1\n    tensorParallel: 8');
    const found = problems(`${text}model: { name: DeepSeek-R1, weightPrecision: fp8 }\n`);
    expect(found[0]).toMatch(/^test\.yaml:2:5: serving\[0\] cannot be built: DeepSeek-R1 with fp8 weights on 8 x H100/);
    expect(problems(`${text}model: { name: DeepSeek-R1, weightPrecision: fp8 }\ncluster: { gpu: H200 }\n`)).toEqual([]);
  });

  const refused: [string, string, string][] = [
    ['more KV blocks than there is memory for', smallest.replace('count: 2', 'count: 2\n    kvBlocks: 1000000'), 'do not fit'],
    ['more engines than GPUs', smallest.replace('2', '9'), 'all groups need 9 GPUs, the cluster has 8'],
    ['prefill without decode', smallest.replace('count: 2', 'count: 2\n    role: prefill'), 'has prefill engines but no decode engines'],
    [
      'aggregated beside prefill and decode',
      smallest.replace('- count: 2', '- count: 2\n  - { count: 1, role: prefill }\n  - { count: 1, role: decode }'),
      'mixes aggregated',
    ],
    ['unequal blocks', smallest.replace('- count: 2', '- count: 2\n  - { count: 1, blockTokens: 32 }'), 'block sizes 16 and 32'],
    ['a pass too small for its sequences', smallest.replace('count: 2', 'count: 2\n    maxBatchedTokens: 100'), 'below maxSequences 256'],
    [
      'tensor parallelism across part of a server',
      smallest.replace('count: 2', 'count: 1\n    tensorParallel: 3'),
      'serving[0].tensorParallel is 3; servers have 8 GPUs: use a divisor of that, or a multiple',
    ],
    [
      'exchanges to hide where there are none',
      smallest.replace('count: 2', 'count: 2\n    twoBatchOverlap: true'),
      'hides exchanges between experts',
    ],
    [
      'copies of experts that are split',
      smallest.replace('count: 2', 'count: 2\n    redundantExperts: 8'),
      'serving[0].redundantExperts is 8; tensor',
    ],
    [
      'drafts where the times are no roofline',
      smallest.replace('count: 2', 'count: 2\n    speculation: { draftTokens: 2, acceptance: 0.7 }\n    timing: { kind: polynomial }'),
      'serving[0].speculation changes the times of a roofline, and those of this group are of kind polynomial',
    ],
    [
      'chunks larger than a pass',
      smallest.replace('count: 2', 'count: 2\n    maxChunkTokens: 9000'),
      'serving[0].maxChunkTokens is 9000, above 8192, maxBatchedTokens; lower it',
    ],
    ['longer than the model takes', smallest.replace('count: 2', 'count: 2\n    maxModelTokens: 200000'), 'takes at most 131072 tokens'],
    [
      'a network that comes out uneven',
      `${smallest}cluster: { topology: { oversubscription: { leaf: 3, by: fewer-links } } }\n`,
      'cannot be built',
    ],
  ];
  it('more engines than a prefix index tells apart, by the largest group, before the network is laid out', () => {
    const text = smallest.replace('count: 2', 'count: 30000\n  - count: 35537');
    const place = 'test.yaml:3:5: serving[1].count is 35537: with all groups there are 65537 engines';
    expect(problems(`${text}router: { policy: kv }\n`)[0]).toMatch(place);
    expect(problems(`${text}router: { policy: kv }\n`)[0]).toContain('("kv") knows at most 65536');
    expect(problems(`${smallest}router: { policy: kv }\nservingRounds: 32769\n`)[0]).toContain(
      'there are 65538 engines in 32769 servingRounds',
    );
    for (const others of [
      text.replace('35537', '35536').concat('router: { policy: kv }\n'),
      `${text}router: { policy: least-loaded }\n`,
      `${text}router: { policy: kv, decode: { policy: random } }\n`.replace('policy: kv', 'policy: round-robin'),
    ])
      expect(problems(others)[0]).toContain('does not fit: all groups need');
  });

  for (const [name, text, expected] of refused) it(name, () => expect(problems(text).join('\n')).toContain(expected));
});

describe('nearest names', () => {
  it('edit distance against a plain recursion', () => {
    const slow = (a: string, b: string): number => {
      if (a === '' || b === '') return a.length + b.length;
      const cost = a.at(-1) === b.at(-1) ? 0 : 1;
      let least = Math.min(slow(a.slice(0, -1), b) + 1, slow(a, b.slice(0, -1)) + 1, slow(a.slice(0, -1), b.slice(0, -1)) + cost);
      if (a.length > 1 && b.length > 1 && a.at(-1) === b.at(-2) && a.at(-2) === b.at(-1))
        least = Math.min(least, slow(a.slice(0, -2), b.slice(0, -2)) + 1);
      return least;
    };
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 5 });
    fc.assert(fc.property(word, word, (a, b) => editDistance(a, b) === slow(a, b)));
  });

  it('are offered only when near', () => {
    expect(nearestName('cuont', ['count', 'role'])).toBe('count');
    expect(nearestName('xyz', ['count', 'role'])).toBeUndefined();
  });
});

describe('fuzz', () => {
  it('any text is a scenario or a scenario error, never anything else', () => {
    const lines = fc.constantFrom(
      'serving:',
      '  - count: 2',
      '  - {count: 1, role: decode}',
      'workload:',
      '  requests: 5',
      '  source: {kind: mooncake-like}',
      '  source:',
      '    kind: trace',
      'cluster: {gpu: B200}',
      'model: &m {name: Llama-3.1-8B}',
      'x: *m',
      'extends: nothing.yaml',
      'seed: .nan',
      'seed: 1e400',
      '? [a, b]',
      ': 1',
      '\t',
      '- - -',
      '{}',
      '"',
      '<<: *m',
      '!!binary aGk=',
      '2024-01-01: 1',
      '__proto__: {a: 1}',
      'router: null',
      'faults: [{kind: gpu-speed}]',
      '%YAML 1.1',
      '---',
      '...',
    );
    const text = fc.oneof(
      fc.string({ maxLength: 80 }),
      fc.array(lines, { maxLength: 12 }).map((all) => all.join('\n')),
    );
    const setting = fc.oneof(
      fc.string({ maxLength: 20 }),
      fc.constantFrom(
        'seed=2',
        'name=*a',
        'x=&a [*a]',
        'seed=!!binary aGk=',
        'name={__proto__: 1}',
        'serving[0].count=3',
        'cluster.gpu=H100',
        '__proto__.a=1',
        'a[0][1]=2',
        'workload.source.kind=x',
      ),
    );
    fc.assert(
      fc.property(text, fc.array(setting, { maxLength: 3 }), (source, settings) => {
        try {
          planCluster(parseScenario(source, 'fuzz.yaml', settings));
        } catch (error) {
          if (!(error instanceof ScenarioError)) throw error;
          expect(error.problems.length).toBeGreaterThan(0);
          for (const problem of error.problems) expect(problem.message).not.toBe('');
        }
      }),
      { numRuns: 1500 },
    );
    expect(({} as { a?: number }).a).toBeUndefined();
  });
});

describe('editors', () => {
  it('configs/schema.json is what the schema is now (braess validate --schema > configs/schema.json)', () => {
    const file = new URL('../../../configs/schema.json', import.meta.url);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(JSON.parse(JSON.stringify(scenarioJsonSchema())));
  });

  it('are told what every key stands for', () => {
    type Schema = { readonly [key: string]: unknown; readonly properties?: Record<string, Schema> };
    const without: string[] = [];
    const walk = (schema: Schema, path: string): void => {
      const choices = (schema.oneOf ?? schema.anyOf ?? []) as Schema[];
      for (const [name, value] of Object.entries(schema.properties ?? {})) {
        const isPlain = value.const === undefined && value.properties === undefined && (value.oneOf ?? value.anyOf) === undefined;
        if (isPlain && value.description === undefined) without.push(`${path}.${name}`);
        walk(value, `${path}.${name}`);
      }
      for (const inner of [...choices, ...(schema.items === undefined ? [] : [schema.items as Schema])]) walk(inner, path);
    };
    walk(scenarioJsonSchema() as Schema, '');
    expect(without).toEqual([]);
  });

  it('every scenario of configs/ can be planned', () => {
    const folder = new URL('../../../configs/', import.meta.url);
    const names = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
    expect(names.length).toBeGreaterThan(5);
    for (const name of names)
      expect(planCluster(readScenario(fileURLToPath(new URL(name, folder)))).engines.length, name).toBeGreaterThan(0);
  });
});
