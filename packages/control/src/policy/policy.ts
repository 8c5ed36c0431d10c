import { copyValue, KernelError } from '@braess/kernel';
import type { z } from 'zod';

/** What can be plugged. */
export const policyKinds = ['router', 'planner', 'oracle', 'eviction', 'admission', 'controller', 'client', 'actor'] as const;
/** Kinds of policies. */
export type PolicyKind = (typeof policyKinds)[number];

/** The next number in [0, 1) of the policy's own random stream. */
export type Random = () => number;

/** A column that a policy may read by index and must not write. Columns may be replaced between calls: never keep one. */
export interface ReadonlyColumn {
  readonly length: number;
  readonly [index: number]: number;
}

/** What every policy declares. Built-in policies and users' policies are the same thing. */
export interface Policy<Kind extends PolicyKind = PolicyKind, Parameters = unknown> {
  readonly kind: Kind;
  /** Lower-case words joined by hyphens. */
  readonly name: string;
  /** One sentence, shown by `braess policy list`. */
  readonly description: string;
  /** Checks the scenario's parameters and fills in defaults; unknown keys are refused. */
  readonly parameters: z.ZodType<Parameters>;
  /** Whether it goes by the engines' load reports, so that a run without them is warned of (`router.loadReportMs`). */
  readsReports?(parameters: Parameters): boolean;
}

/** A policy with checked parameters, ready to run. */
export interface BoundPolicy<P extends Policy = Policy> {
  readonly policy: P;
  readonly parameters: unknown;
  /** 'built-in', or the file it was loaded from. */
  readonly source: string;
}

/** Source of what comes with Braess. */
export const builtInSource = 'built-in';

/** What a policy of each kind must have; a router has either of two, which `defineRouterPolicy` checks. */
const requiredFunctions: Readonly<Record<PolicyKind, readonly string[]>> = {
  router: [],
  planner: ['plan'],
  oracle: ['answer'],
  eviction: ['create'],
  admission: ['admit'],
  controller: ['decide'],
  client: ['start'],
  actor: ['build'],
};

const nameForm = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const nameFault = `needs a name of lower-case words joined by hyphens, such as 'my-policy'`;
const isPolicyName = (name: unknown): boolean => typeof name === 'string' && nameForm.test(name);

/** @throws KernelError `bad-model` for a name that a policy cannot have. */
export function checkPolicyName(kind: PolicyKind, name: string): void {
  if (!isPolicyName(name)) throw new KernelError('bad-model', `${kind} policy '${name}' ${nameFault}`);
}

/**
 * Checks a declaration and gives it its kind.
 * @throws KernelError `bad-model` naming the policy and what it lacks.
 */
export function definePolicy<P extends Policy>(kind: P['kind'], declaration: Omit<P, 'kind'>): P {
  const policy = { kind, ...declaration } as unknown as P;
  const fault = policyFault(policy, requiredFunctions[kind]);
  if (fault !== undefined) throw new KernelError('bad-model', `${kind} policy '${String(policy.name)}' ${fault}`);
  return Object.freeze(policy);
}

function policyFault(policy: Policy, functions: readonly string[]): string | undefined {
  if (!isPolicyName(policy.name)) return nameFault;
  if (typeof policy.description !== 'string' || policy.description === '') return 'needs a description of one sentence';
  if (typeof (policy.parameters as { safeParse?: unknown } | undefined)?.safeParse !== 'function')
    return 'needs parameters: a zod schema; use z.strictObject({}) for none';
  const missing = functions.find((name) => typeof (policy as unknown as Record<string, unknown>)[name] !== 'function');
  if (missing !== undefined) return `has no function '${missing}'; add it`;
  const waiting = asyncFunction(policy);
  return waiting === undefined
    ? undefined
    : `has an async function '${waiting}'; what it does after an await would come outside the run: make it synchronous`;
}

const asyncKinds = ['AsyncFunction', 'AsyncGeneratorFunction'];

/** Name of a function that would wait, which nobody waits for; undefined where there is none. */
export function asyncFunction(functions: object): string | undefined {
  return Object.entries(functions).find(([, value]) => typeof value === 'function' && asyncKinds.includes(value.constructor.name))?.[0];
}

/**
 * Checks `parameters` against the policy's schema.
 * @throws KernelError `bad-option` naming the policy, the path, the fault and the parameters it takes.
 */
export function bindPolicy<P extends Policy>(policy: P, parameters: unknown = {}, source = builtInSource): BoundPolicy<P> {
  // A plain z.object drops unknown keys without a word, which would hide a misspelt parameter.
  const { strict } = policy.parameters as { strict?: () => z.ZodType };
  const schema = typeof strict === 'function' ? strict.call(policy.parameters) : policy.parameters;
  const result = schema.safeParse(parameters);
  if (result.success) return { policy, parameters: frozen(result.data), source };
  const faults = result.error.issues.map((issue) => {
    const path = issue.path.join('.');
    const inside = issue.code === 'unrecognized_keys' && path !== '' ? keysOf(schemaAt(schema, issue.path)) : undefined;
    return `${path === '' ? '' : `${path}: `}${issue.message}${inside === undefined ? '' : ` (${path} takes ${inside.join(', ')})`}`;
  });
  throw new KernelError(
    'bad-option',
    `${describePolicy(policy, source)}: parameters ${JSON.stringify(parameters)}: ${faults.join('; ')}${takes(policy)}`,
    {},
    result.error,
  );
}

/** Parameters are shared by all that the policy is asked for: what a policy wrote there would outlive the decision, unseen by checkpoints. */
function frozen(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype))
    return value;
  for (const entry of Object.values(value)) frozen(entry);
  return Object.freeze(value);
}

function takes(policy: Policy): string {
  const names = keysOf(policy.parameters);
  return names === undefined ? '' : `; it takes ${names.length === 0 ? 'no parameters' : names.join(', ')}`;
}

/** Keys that an object schema takes; undefined for any other. */
function keysOf(schema: unknown): string[] | undefined {
  const { shape } = (schema ?? {}) as { shape?: Record<string, unknown> };
  return shape === undefined ? undefined : Object.keys(shape);
}

/** What stands at a path of a schema, through lists and what may be absent; undefined where a path leads through anything else. */
function schemaAt(schema: unknown, path: readonly PropertyKey[]): unknown {
  let found = bare(schema);
  for (const step of path) {
    const { shape, element } = (found ?? {}) as { shape?: Record<PropertyKey, unknown>; element?: unknown };
    found = bare(shape?.[step] ?? element);
  }
  return found;
}

/** A schema without its defaults and the like. */
function bare(schema: unknown): unknown {
  let inner = schema;
  for (;;) {
    const { unwrap, element } = (inner ?? {}) as { unwrap?: () => unknown; element?: unknown };
    if (typeof unwrap !== 'function' || element !== undefined) return inner; // A list unwraps to its element.
    inner = unwrap.call(inner);
  }
}

export function describePolicy(policy: Policy, source: string): string {
  return `${policy.kind} policy '${policy.name}' (${source})`;
}

/** The error that stops a run when a policy misbehaves: it names the policy, its file, what it was asked and what it did. */
export function policyFailure(bound: BoundPolicy, asked: string, fault: string, cause?: unknown): KernelError {
  const error = new KernelError('handler-failed', `${describePolicy(bound.policy, bound.source)}, asked ${asked}, ${fault}`, {}, cause);
  // The place in the policy's own file is what its author needs.
  if (cause instanceof Error && cause.stack !== undefined) error.stack = `${error.name}: ${error.message}\n${stackFrames(cause.stack)}`;
  return error;
}

/**
 * The policy's fresh state, null when it keeps none.
 * @throws KernelError `bad-model` naming policy and file when `createState` throws, or returns what is no plain data and would stop the first checkpoint.
 */
export function policyState<P extends StatefulPolicy>(bound: BoundPolicy<P>, size: number): unknown {
  let state: unknown;
  try {
    state = bound.policy.createState?.(bound.parameters, size) ?? null;
  } catch (thrown) {
    throw new KernelError('bad-model', `${describePolicy(bound.policy, bound.source)}: createState ${thrownFault(thrown)}`, {}, thrown);
  }
  try {
    // The copy shares nothing with parameters or variables of the module.
    return copyValue(state as never, 'the state');
  } catch (thrown) {
    const fault = (thrown as Error).message;
    throw new KernelError('bad-model', `${describePolicy(bound.policy, bound.source)}: createState returned what cannot be kept: ${fault}`);
  }
}

interface StatefulPolicy extends Policy {
  createState?(parameters: unknown, size: number): unknown;
}

/** A promise that a function of a policy returned, as the end of a sentence; undefined for anything else. Nobody waits for it, whatever declared it. */
export function promiseFault(said: unknown): string | undefined {
  if (typeof said !== 'object' || said === null || typeof (said as { then?: unknown }).then !== 'function') return undefined;
  return 'returned a promise; what comes of it would come outside the run: make it synchronous';
}

/** What a policy threw, as the end of a sentence. */
export function thrownFault(thrown: unknown): string {
  return `threw ${thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown)}`;
}

function stackFrames(stack: string): string {
  const at = stack.search(/\n\s+at /);
  return at < 0 ? '' : stack.slice(at + 1);
}
