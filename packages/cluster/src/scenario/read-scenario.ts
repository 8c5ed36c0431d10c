import { z } from 'zod';
import { didYouMean, parseScenarioText, placeOf, readDocument, type ScenarioDocument } from './document.js';
import { pathText, ScenarioError, type ScenarioProblem } from './problem.js';
import { type Scenario, scenarioSchema } from './schema.js';
import { timeProblems } from './times.js';

/** A scenario that is well-formed, with the document it came from for messages about its values. */
export interface ReadScenario {
  readonly scenario: Scenario;
  readonly document: ScenarioDocument;
}

/**
 * Reads a scenario file, what it extends and `settings` (path=value), checks it and fills in every default.
 * @throws ScenarioError naming each mistake with file, line, column, value, what is allowed and the nearest name.
 */
export function readScenario(file: string, settings: readonly string[] = []): ReadScenario {
  return checkDocument(readDocument(file, settings));
}

/** A scenario from text, as if it stood in `file`. */
export function parseScenario(text: string, file: string, settings: readonly string[] = []): ReadScenario {
  return checkDocument(parseScenarioText(text, file, settings));
}

function checkDocument(document: ScenarioDocument): ReadScenario {
  const parsed = scenarioSchema.safeParse(document.value);
  const problems = parsed.success
    ? timeProblems(parsed.data).map(({ path, message }) => ({ place: placeOf(document, path), path: pathText(path), message }))
    : parsed.error.issues.flatMap((issue) => problemsOf(issue, document));
  if (parsed.success && problems.length === 0) return { scenario: parsed.data, document };
  throw new ScenarioError(problems.sort((a, b) => a.place.line - b.place.line || a.place.column - b.place.column));
}

type Issue = z.core.$ZodIssue;
type JsonSchema = z.core.JSONSchema.BaseSchema;

function problemsOf(issue: Issue, document: ScenarioDocument): ScenarioProblem[] {
  if (issue.code === 'unrecognized_keys') {
    const allowed = allowedKeys(issue.path, document);
    return issue.keys.map((key) => ({
      place: placeOf(document, [...issue.path, key]),
      path: pathText([...issue.path, key]),
      message: `is no option; ${hintFor(key, allowed, issue.path)}options here: ${allowed.join(', ')}`,
    }));
  }
  return [{ place: placeOf(document, issue.path), path: pathText(issue.path), message: explain(issue, document) }];
}

function explain(issue: Issue, document: ScenarioDocument): string {
  const value = valueAt(document.value, issue.path);
  if (value === undefined && isDiscriminator(issue)) return missingKind(issue.path, document);
  // A check over several keys, of which this one has its default: what is missing would have been told by its type.
  if (value === undefined && issue.code === 'custom') return `is left to its default; ${expectation(issue)}`;
  if (value === undefined) return `is missing; ${expectation(issue)}`;
  const is = `is ${shorten(value)}`;
  if (issue.code === 'invalid_value')
    return `${is}; ${expectation(issue)}${typeof value === 'string' ? didYouMean(value, issue.values.map(String)) : ''}`;
  if (issue.code === 'invalid_union' && 'discriminator' in issue && issue.discriminator !== undefined) {
    const kinds = kindsAt(issue.path, document);
    return `${is}; must be one of ${kinds.join(', ')}${typeof value === 'string' ? didYouMean(value, kinds) : ''}`;
  }
  return `${is}; ${issue.code === 'invalid_union' ? `must be ${choicesAt(issue.path, document)}` : expectation(issue)}`;
}

function isDiscriminator(issue: Issue): boolean {
  return issue.code === 'invalid_union' && 'discriminator' in issue && issue.discriminator !== undefined;
}

/** What the kinds are, and where keys belong that none of them has. */
function missingKind(path: readonly PropertyKey[], document: ScenarioDocument): string {
  const holder = path.slice(0, -1);
  const allowed = allowedKeys(holder, document);
  const strangers = Object.keys(valueAt(document.value, holder) as object).filter((key) => !allowed.includes(key));
  const hints = strangers.map((key) => `; ${key} is none of its options${elsewhere(key, path)}`);
  return `is missing; must be one of ${kindsAt(path, document).join(', ')}${hints.join('')}`;
}

/** The nearest option here, or where the option of that name stands. */
function hintFor(key: string, allowed: readonly string[], path: readonly PropertyKey[]): string {
  const near = didYouMean(key, allowed);
  const place = elsewhere(key, path);
  return near !== '' ? `${near.slice(2)} ` : place === '' ? '' : `${place.slice(2)}; `;
}

/** `, there is workload.retry.timeoutMs`, for a key that stands elsewhere: in the same section, else anywhere; of several the first two. */
function elsewhere(key: string, [section]: readonly PropertyKey[]): string {
  const all = [...new Set(placesOf(key, scenarioJsonSchema(), '', 0))];
  const near = all.filter((place) => place.startsWith(`${String(section)}.`));
  const places = near.length > 0 ? near : all;
  return places.length === 0 ? '' : `, there is ${places.slice(0, 2).join(' and ')}`;
}

function placesOf(key: string, schema: JsonSchema, path: string, depth: number): string[] {
  if (depth > 8) return [];
  const below = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).flatMap(([name, inner]) => {
    const place = path === '' ? name : `${path}.${name}`;
    return [...(name === key ? [place] : []), ...placesOf(key, inner, place, depth + 1)];
  });
  const items = schema.items === undefined ? [] : placesOf(key, schema.items as JsonSchema, `${path}[]`, depth + 1);
  const choices = ((schema.oneOf ?? schema.anyOf ?? []) as JsonSchema[]).flatMap((choice) => placesOf(key, choice, path, depth + 1));
  return [...below, ...items, ...choices];
}

/** What a value may be that is one of several things: `a whole number or unlimited`. */
function choicesAt(path: readonly PropertyKey[], document: ScenarioDocument): string {
  const texts = schemasAt(path, document).map((schema) =>
    schema.const !== undefined ? String(schema.const) : (schemaTypeNames[String(schema.type)] ?? String(schema.type)),
  );
  return [...new Set(texts)].join(' or ');
}

const schemaTypeNames: Readonly<Record<string, string>> = {
  integer: 'a whole number',
  number: 'a number',
  string: 'a text',
  object: 'a map',
};

function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${typeNames[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`;
    case 'too_small':
      if (issue.origin === 'array' || issue.origin === 'string') return 'must not be empty';
      return `must be ${issue.inclusive === false ? 'above' : 'at least'} ${issue.minimum}`;
    case 'too_big':
      return `must be ${issue.inclusive === false ? 'below' : 'at most'} ${issue.maximum}`;
    default:
      return issue.message;
  }
}

const typeNames: Record<string, string> = {
  int: 'a whole number',
  number: 'a finite number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'a map',
  record: 'a map',
};

function shorten(value: unknown): string {
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value;
  for (const part of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<PropertyKey, unknown>)[part];
  }
  return at;
}

let schemaCache: JsonSchema | undefined;

/** The JSON Schema of scenario files, for editors. */
export function scenarioJsonSchema(): JsonSchema {
  schemaCache ??= z.toJSONSchema(scenarioSchema, { io: 'input', target: 'draft-7' }) as JsonSchema;
  const properties = { extends: { type: 'string', description: 'Scenario file this one varies' }, ...schemaCache.properties };
  return { ...schemaCache, title: 'Braess scenario', properties } as JsonSchema;
}

/** Schemas that may apply at a path: where a map has a `kind`, only those of that kind. */
function schemasAt(path: readonly PropertyKey[], document: ScenarioDocument): JsonSchema[] {
  let schemas = branches(scenarioJsonSchema(), document.value);
  for (let length = 1; length <= path.length; length++) {
    const part = path[length - 1] as PropertyKey;
    const value = valueAt(document.value, path.slice(0, length));
    schemas = schemas
      .map((schema) =>
        typeof part === 'number' ? (schema.items as JsonSchema | undefined) : (schema.properties?.[String(part)] as JsonSchema | undefined),
      )
      .filter((schema) => schema !== undefined)
      .flatMap((schema) => branches(schema, value));
  }
  return schemas;
}

function branches(schema: JsonSchema, value: unknown): JsonSchema[] {
  const choices = (schema.oneOf ?? schema.anyOf) as JsonSchema[] | undefined;
  if (choices === undefined) return [schema];
  const kind = typeof value === 'object' && value !== null ? (value as { kind?: unknown }).kind : undefined;
  const matching = choices.filter((choice) => (choice.properties?.kind as JsonSchema | undefined)?.const === kind);
  return matching.length > 0 ? matching : choices;
}

function allowedKeys(path: readonly PropertyKey[], document: ScenarioDocument): string[] {
  return [...new Set(schemasAt(path, document).flatMap((schema) => Object.keys(schema.properties ?? {})))].sort();
}

/** The kinds a discriminated map may have; `path` ends with the discriminator. */
function kindsAt(path: readonly PropertyKey[], document: ScenarioDocument): string[] {
  const holder = path.at(-1) === 'kind' ? path.slice(0, -1) : path;
  return schemasAt(holder, document).flatMap((schema) => {
    const kind = (schema.properties?.kind as JsonSchema | undefined)?.const;
    return kind === undefined ? [] : [String(kind)];
  });
}
