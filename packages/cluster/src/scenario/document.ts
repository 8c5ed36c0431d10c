import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { nearestName } from './nearest.js';
import { type Place, pathText, ScenarioError } from './problem.js';

/** Plain data as YAML can say it. */
export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain };

/** A scenario as written, files it extends and settings merged in, with the place of every value (key: its path). */
export interface ScenarioDocument {
  readonly value: { [key: string]: Plain };
  readonly places: Map<string, Place>;
  /** The files it was read from, its own last. */
  readonly files: readonly string[];
}

/** How deep files may extend each other, and nodes be nested: far above any real scenario. */
const extendsLimit = 16;
const depthLimit = 32;
const fileLimitBytes = 4_000_000;
/** Values read from one file, aliases expanded: a bound on files made to explode. */
const nodeLimit = 100_000;

/** Throws a TypeError on other bytes, which would pass as replacement characters. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads a scenario file and all it extends; keys of the later file win, maps merge, lists and scalars are replaced, null takes a key away.
 * Then each setting `path=value` (value in YAML) is applied. @throws ScenarioError with file, line and column.
 */
export function readDocument(file: string, settings: readonly string[] = []): ScenarioDocument {
  const document = readChain(resolve(file), [], file, undefined);
  for (const setting of settings) applySetting(document, setting);
  return document;
}

/** A scenario from text, as if it stood in `file`; `extends` is looked for beside it. */
export function parseScenarioText(text: string, file: string, settings: readonly string[] = []): ScenarioDocument {
  const document = mergeBase(parseText(text, file), resolve(file), [resolve(file)]);
  for (const setting of settings) applySetting(document, setting);
  return document;
}

function readChain(path: string, chain: readonly string[], name: string, from: Place | undefined): ScenarioDocument {
  const place = from ?? { file: name, line: 0, column: 0 };
  if (chain.includes(path))
    fail(place, 'extends', `"${name}" extends itself${chain.length > 1 ? ` over ${chain.length} files` : ''}; take one "extends" away`);
  if (chain.length >= extendsLimit) fail(place, 'extends', `files extend each other ${chain.length} deep; at most ${extendsLimit}`);
  let text: string;
  try {
    text = utf8.decode(readFileSync(path));
  } catch (error) {
    fail(place, from === undefined ? '' : 'extends', `cannot read scenario "${name}": ${whyUnread(error)}`);
  }
  return mergeBase(parseText(text, name), path, [...chain, path]);
}

function whyUnread(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8 text';
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file; check the path';
  return code === 'EISDIR' ? 'it is a folder; give a file' : message;
}

function mergeBase(own: ScenarioDocument, path: string, chain: readonly string[]): ScenarioDocument {
  const base = own.value.extends;
  if (base === undefined) return own;
  delete own.value.extends;
  const place = own.places.get('extends') as Place;
  if (typeof base !== 'string' || base === '') fail(place, 'extends', `is ${JSON.stringify(base)}; must be the name of one scenario file`);
  const directory = dirname(path);
  const below = readChain(resolve(directory, base), chain, resolve(directory, base), place);
  mergeMap(below.value, own.value, [], below.places, own.places);
  return { value: below.value, places: below.places, files: [...below.files, ...own.files] };
}

function parseText(text: string, file: string): ScenarioDocument {
  if (text.length > fileLimitBytes) {
    fail({ file, line: 1, column: 1 }, '', `the file has ${text.length} characters; a scenario has at most ${fileLimitBytes}`);
  }
  const lines = new LineCounter();
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const document = parseDocument(text.startsWith('\uFEFF') ? text.slice(1) : text, {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
  });
  if (document.errors.length > 0) {
    throw new ScenarioError(
      document.errors.map((error) => ({
        place: at(error.pos[0]),
        path: '',
        message: `not valid YAML: ${error.code === 'MULTIPLE_DOCS' ? 'a second document begins here; a scenario is one' : error.message}`,
      })),
    );
  }
  const places = new Map<string, Place>();
  const root = document.contents;
  if (root === null || !isMap(root)) {
    fail({ file, line: 1, column: 1 }, '', 'a scenario must be a map of sections such as cluster, model, serving; this file holds none');
  }
  const value = plainValue(document, [], at, places) as { [key: string]: Plain };
  return { value, places, files: [file] };
}

/** What a YAML document says, which lies at a path of the scenario; notes the places of its keys and values. */
function plainValue(
  document: Document.Parsed,
  root: readonly (string | number)[],
  at: (offset: number) => Place,
  places: Map<string, Place>,
): Plain {
  let nodes = 0;
  return toPlain(document.contents as Node | null, root);

  function toPlain(node: Node | null, path: readonly (string | number)[]): Plain {
    const start = at(node?.range?.[0] ?? 0);
    const name = pathText(path);
    if (!places.has(name)) places.set(name, start);
    if (path.length > depthLimit) fail(start, name, `is nested more than ${depthLimit} deep; a scenario never is`);
    if (++nodes > nodeLimit)
      fail(start, name, `is value ${nodes} of the scenario; at most ${nodeLimit} are read (aliases count each time)`);
    if (node === null) return null;
    if (isAlias(node)) {
      const target = node.resolve(document);
      if (target === undefined) fail(start, name, `refers to *${node.source}, which is not defined before it`);
      return toPlain(target as Node, path);
    }
    if (isScalar(node)) return scalarValue(node.value, start, path);
    if (isSeq(node)) return node.items.map((item, index) => toPlain(item as Node | null, [...path, index]));
    if (!isMap(node)) fail(start, name, 'is not a value a scenario can hold');
    const map: { [key: string]: Plain } = {};
    for (const pair of node.items) {
      const keyNode = pair.key as Node;
      const key = isScalar(keyNode) ? String(keyNode.value) : String(keyNode);
      const inner = [...path, key];
      const keyPlace = at(keyNode.range?.[0] ?? 0);
      places.set(pathText(inner), keyPlace);
      if (key === '__proto__') fail(keyPlace, pathText(inner), 'is not a key a scenario can hold');
      map[key] = toPlain(pair.value as Node | null, inner);
    }
    return map;
  }
}

function scalarValue(value: unknown, place: Place, path: readonly (string | number)[]): Plain {
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') return value;
  fail(place, pathText(path), `is ${String(value)}; must be a number, text, true, false, a list or a map`);
}

function mergeMap(
  into: { [key: string]: Plain },
  from: { [key: string]: Plain },
  path: readonly (string | number)[],
  intoPlaces: Map<string, Place>,
  fromPlaces: Map<string, Place>,
): void {
  for (const [key, value] of Object.entries(from)) {
    const inner = [...path, key];
    const below = into[key];
    if (isPlainMap(value) && isPlainMap(below) && !changesKind(below, value)) {
      mergeMap(below, value, inner, intoPlaces, fromPlaces);
      continue;
    }
    forgetPlaces(intoPlaces, pathText(inner));
    if (value === null) {
      delete into[key];
      continue;
    }
    into[key] = value;
    copyPlaces(fromPlaces, intoPlaces, pathText(inner));
  }
}

/** A map with another `kind` is another thing: keys of the old kind would only be mistakes in it. */
function changesKind(below: { [key: string]: Plain }, value: { [key: string]: Plain }): boolean {
  return value.kind !== undefined && below.kind !== undefined && value.kind !== below.kind;
}

function isPlainMap(value: Plain | undefined): value is { [key: string]: Plain } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function forgetPlaces(places: Map<string, Place>, path: string): void {
  for (const key of places.keys()) if (isUnder(key, path)) places.delete(key);
}

function copyPlaces(from: Map<string, Place>, to: Map<string, Place>, path: string): void {
  for (const [key, place] of from) if (isUnder(key, path)) to.set(key, place);
}

function isUnder(key: string, path: string): boolean {
  return key === path || (key.startsWith(path) && (key[path.length] === '.' || key[path.length] === '['));
}

/** Sets one value, `serving[0].count=4` or `router.policy=kv`; the value is YAML. */
function applySetting(document: ScenarioDocument, setting: string): void {
  const equals = setting.indexOf('=');
  const place: Place = { file: `--set ${setting}`, line: 0, column: 0 };
  if (equals < 1) fail(place, '', 'must have the form path=value, e.g. router.policy=kv or serving[0].count=4');
  const parts = settingPath(setting.slice(0, equals), place);
  const parsed = parseDocument(setting.slice(equals + 1), { prettyErrors: false, stringKeys: true });
  if (parsed.errors.length > 0) fail(place, '', `the value is not valid YAML: ${(parsed.errors[0] as Error).message}`);
  const value = plainValue(parsed, parts, () => place, new Map());
  let at: Plain = document.value;
  for (const [index, part] of parts.slice(0, -1).entries()) {
    const inner: Plain | undefined = childOf(at, part, parts.slice(0, index + 1), place);
    if (inner === undefined || inner === null) {
      const made: Plain = {};
      (at as { [key: string]: Plain })[part] = made;
      document.places.set(pathText(parts.slice(0, index + 1)), place);
      at = made;
    } else at = inner;
  }
  const last = parts.at(-1) as string | number;
  childOf(at, last, parts, place);
  forgetPlaces(document.places, pathText(parts));
  if (value === null && !Array.isArray(at)) delete (at as { [key: string]: Plain })[last];
  else (at as { [key: string]: Plain })[last] = value;
  document.places.set(pathText(parts), place);
}

function childOf(holder: Plain, part: string | number, path: readonly (string | number)[], place: Place): Plain | undefined {
  if (Array.isArray(holder)) {
    if (typeof part === 'number' && part < holder.length) return holder[part];
    const named = holder.findIndex((entry) => isPlainMap(entry) && entry.name === part);
    const hint = named >= 0 ? `; "${part}" is entry [${named}]` : '';
    fail(place, pathText(path), `is not in a list of ${holder.length} entries; use an index from [0] to [${holder.length - 1}]${hint}`);
  }
  if (!isPlainMap(holder)) fail(place, pathText(path), `lies below ${JSON.stringify(holder)}, which holds no keys`);
  return Object.hasOwn(holder, part) ? holder[part] : undefined;
}

function settingPath(text: string, place: Place): (string | number)[] {
  const parts: (string | number)[] = [];
  for (const piece of text.split('.')) {
    const match = /^([A-Za-z0-9_-]+)((?:\[\d+\])*)$/.exec(piece);
    if (match === null) fail(place, '', `the path "${text}" must be names joined by dots, with [index] for lists`);
    const name = match[1] as string;
    if (name === '__proto__') fail(place, '', `the path "${text}" names no key of a scenario`);
    parts.push(/^\d+$/.test(name) ? Number(name) : name);
    for (const index of (match[2] as string).matchAll(/\d+/g)) parts.push(Number(index[0]));
  }
  return parts;
}

/** The place of a path, or of the nearest one above it. */
export function placeOf(document: ScenarioDocument, path: readonly PropertyKey[]): Place {
  for (let length = path.length; length >= 0; length--) {
    const place = document.places.get(pathText(path.slice(0, length)));
    if (place !== undefined) return place;
  }
  return { file: document.files.at(-1) ?? 'scenario', line: 1, column: 1 };
}

/** A hint at the nearest name; none where the word is a name itself, and something else is wrong. */
export function didYouMean(word: string, candidates: readonly string[]): string {
  if (candidates.includes(word)) return '';
  const nearest = nearestName(word, candidates);
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}

/** How many names there are, and the first of them, for a message about one that is none of them: `there are 64: a, b, c, d, ...`. */
export function thereAre(names: readonly string[]): string {
  if (names.length === 0) return 'there is none';
  return `there are ${names.length}: ${names.slice(0, 4).join(', ')}${names.length > 4 ? ', ...' : ''}`;
}

function fail(place: Place, path: string, message: string): never {
  throw new ScenarioError([{ place, path, message }]);
}
