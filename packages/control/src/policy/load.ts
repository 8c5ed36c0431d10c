import { existsSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as kernel from '@braess/kernel';
import * as protocol from '@braess/protocol';
import * as zod from 'zod';
import * as control from '../index.js';
import type { AdmissionPolicy, ControllerPolicy, OraclePolicy, PlannerPolicy } from './control-policies.js';
import type { ActorPlug, ClientPolicy, EvictionPlug } from './plug-policies.js';
import { type BoundPolicy, bindPolicy, definePolicy, type Policy, type PolicyKind, policyKinds } from './policy.js';
import { builtInPolicy, builtInPolicyNames } from './registry.js';
import { defineRouterPolicy, type RouterPolicy } from './router-policy.js';

/** A policy as a scenario names it; plain data. */
export interface PolicySpec {
  /**
   * A built-in name; or a file (.ts, .mts, .js, .mjs, .cjs) with a path; or a package, as `package:name`. Behind a `#`, the name of an export;
   * without it the default export is taken.
   */
  readonly policy: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Type of a policy by its kind. */
export interface PolicyOf {
  router: RouterPolicy;
  planner: PlannerPolicy;
  oracle: OraclePolicy;
  eviction: EvictionPlug;
  admission: AdmissionPolicy;
  controller: ControllerPolicy;
  client: ClientPolicy;
  actor: ActorPlug;
}

/** Where policies are looked up, and what they may import. */
export interface LoadOptions {
  /** Directory that files and packages are looked up from: the scenario's. */
  readonly baseDirectory: string;
  /** Further modules that a policy may import without having them installed, by name; @braess/kernel, protocol, control and zod are always there. */
  readonly modules?: Readonly<Record<string, unknown>>;
}

/**
 * Finds, loads and checks a policy. Synchronous, so a program's build function may call it, also in a worker thread: TypeScript and ES modules are
 * compiled on the fly. A policy sees the very same @braess modules as the caller, so its actors can handle the cluster's messages.
 * @throws KernelError `bad-option` naming the policy or file, what is wrong and what to do.
 */
export function loadPolicy<Kind extends PolicyKind>(kind: Kind, spec: PolicySpec, options: LoadOptions): BoundPolicy<PolicyOf[Kind]> {
  const known = builtInPolicy(kind, spec.policy);
  if (known !== undefined) return bindPolicy(known as PolicyOf[Kind], spec.parameters);
  const [place, exportName = 'default'] = spec.policy.split('#', 2) as [string, string?];
  const file = locate(kind, place, options.baseDirectory);
  const policy = pick(kind, loadModule(file, options), exportName, file);
  return bindPolicy(policy as PolicyOf[Kind], spec.parameters, exportName === 'default' ? file : `${file}#${exportName}`);
}

/** The file behind a path or package name. */
function locate(kind: PolicyKind, place: string, baseDirectory: string): string {
  const packageName = /^package:(.+)$/.exec(place)?.[1];
  if (packageName !== undefined) return locatePackage(kind, packageName, baseDirectory);
  if (!/[\\/]|\.[mc]?[jt]s$/.test(place)) throw unknownName(kind, place);
  const file = path.resolve(baseDirectory, place);
  if (!existsSync(file)) {
    const from = path.isAbsolute(place) ? '' : `; paths count from ${baseDirectory}`;
    throw fault(`${kind} policy file ${file} does not exist${from}`);
  }
  return realpathSync(file);
}

function locatePackage(kind: PolicyKind, packageName: string, baseDirectory: string): string {
  const base = pathToFileURL(path.join(baseDirectory, 'policy')).href;
  try {
    return createRequire(base).resolve(packageName);
  } catch {
    // The package may export to `import` only.
    try {
      return fileURLToPath(jitiModule().createJiti(base, { fsCache: false }).esmResolve(packageName));
    } catch (error) {
      throw fault(`${kind} policy package '${packageName}' is not found from ${baseDirectory}; install it there`, error);
    }
  }
}

function unknownName(kind: PolicyKind, name: string): kernel.KernelError {
  const names = builtInPolicyNames(kind);
  // Those of KV caches are the KV package's own.
  const list = kind === 'eviction' ? '' : names.length === 0 ? ': there are none built in' : `: built in are ${names.join(', ')}`;
  return fault(`${kind} policy '${name}' is unknown${list}; write a file as ./${name}.ts and a package as package:${name}`);
}

function loadModule(file: string, options: LoadOptions): Record<string, unknown> {
  // Given as they are, not loaded again: declarations of messages are known by identity.
  const virtualModules = { '@braess/kernel': kernel, '@braess/protocol': protocol, '@braess/control': control, zod, ...options.modules };
  forgetChanged();
  const before = new Set(Object.keys(moduleCache));
  try {
    const jiti = jitiModule().createJiti(pathToFileURL(file).href, { fsCache: false, interopDefault: false, virtualModules });
    return jiti(file) as Record<string, unknown>;
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const hint = /await is only valid|top-level await|ERR_REQUIRE_ASYNC_MODULE/i.test(text)
      ? '; policies load synchronously: move what is awaited out of the module'
      : '';
    throw fault(`policy file ${file} cannot be loaded: ${text}${hint}`, error);
  } finally {
    for (const name of Object.keys(moduleCache)) if (!before.has(name) && !name.includes('/node_modules/')) stamps.set(name, stampOf(name));
  }
}

const moduleCache = createRequire(import.meta.url).cache;
/** Files that policies brought in, each with the stamp it had. A cache of this thread, no part of any result. */
const stamps = new Map<string, string>();

/** A file that has changed is loaded again, and all others with it, for they may have imported it. */
function forgetChanged(): void {
  if ([...stamps].every(([file, stamp]) => stampOf(file) === stamp)) return;
  for (const file of stamps.keys()) delete moduleCache[file];
  stamps.clear();
}

function stampOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined ? 'gone' : `${stat.mtimeMs} ${stat.size} ${stat.ino}`;
}

/** Loaded on first use: most runs have no policy file, and every worker thread would pay for it. */
function jitiModule(): typeof import('jiti') {
  return createRequire(import.meta.url)('jiti') as typeof import('jiti');
}

/** CommonJS modules may be the policy itself, or carry it as `default`. */
function pick(kind: PolicyKind, loaded: Record<string, unknown>, exportName: string, file: string): Policy {
  const whole = exportName === 'default' && loaded.default === undefined ? loaded : loaded[exportName];
  const found = whole as Partial<Policy> | undefined;
  const exported = Object.keys(loaded).join(', ') || 'nothing';
  if (typeof found !== 'object' || found === null || !policyKinds.includes(found.kind as PolicyKind))
    throw fault(
      `policy file ${file}: its export '${exportName}' is no policy (it exports ${exported}); use export default ${defineName(kind)}({...})`,
    );
  if (found.kind !== kind)
    throw fault(
      `policy file ${file}: '${exportName}' is a policy of kind ${found.kind}, not ${kind}; name it where the scenario wants a ${found.kind}`,
    );
  const { kind: _kind, ...declaration } = found as Policy;
  try {
    if (kind === 'router') return defineRouterPolicy(declaration as RouterPolicy);
    return definePolicy<Policy>(kind, declaration);
  } catch (error) {
    throw fault(`policy file ${file}: ${(error as Error).message}`, error);
  }
}

function defineName(kind: PolicyKind): string {
  return `define${kind[0]?.toUpperCase()}${kind.slice(1)}Policy`;
}

function fault(text: string, cause?: unknown): kernel.KernelError {
  return new kernel.KernelError('bad-option', text, {}, cause);
}
