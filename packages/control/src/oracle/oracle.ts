import { type ActorKind, actorKind, type Context, copyValue, KernelError, message } from '@braess/kernel';
import { linkReport, oracleKnowledge, oracleWatch, probeEnded, probeOrder, setTelemetryLoss } from '@braess/protocol';
import type { OracleActions, OraclePolicy, OracleView } from '../policy/control-policies.js';
import { type BoundPolicy, policyState } from '../policy/policy.js';
import { askOfSite } from './ask-oracle.js';
import type { NetworkSite } from './site.js';

/** oracle -> itself: tell the frontends what is new; the beat of the policy. */
const publishDue = message('publishDue');
const beatDue = message('beatDue');

/** Where an engine's KV leaves and arrives, and who probes from there. */
export interface ProbePlace {
  readonly node: number;
  readonly prober: { readonly id: number };
}

/** What an oracle is built with; delays in ns. */
export interface OracleOptions {
  readonly policy: BoundPolicy<OraclePolicy>;
  readonly site: NetworkSite;
  /** Number of engines, known once all are declared. */
  readonly engines: { readonly length: number };
  readonly frontends: readonly { readonly id: number }[];
  /** By engine; needed by policies that probe. */
  readonly places: readonly ProbePlace[];
  readonly controlDelayNs: number;
  /** Whether a router wants the load of single links. */
  readonly readsPaths: boolean;
}

/** Plain data. */
export interface OracleState {
  policy: unknown;
  telemetryLost: boolean;
  /** Frontends with requests in flight. */
  busyFrontends: number;
  publishing: boolean;
  beating: boolean;
  publishedAtNs: number;
  /** Probes under way: who asked, from and to which engine, how large. */
  probes: Map<number, { from: number; to: number; forthBytes: number; backBytes: number }>;
  probeCount: number;
  publications: number;
  reports: number;
}

const messages = { linkReport, oracleWatch, probeEnded, setTelemetryLoss, publishDue, beatDue };
type OracleContext = Context<'oracle'>;

/** The actor kind of an oracle. */
export type OracleKind = ActorKind<'oracle', keyof typeof messages, void>;

/** Period of its beat where the policy names none, ns. */
const defaultBeatNs = 1e9;

/**
 * The network oracle. Of the cluster's load it knows what messages told it: link reports, and the ends of the probes it sends. It tells the frontends what
 * its policy publishes, by message, so what they answer from is late by the way here and the way there.
 */
export function createOracleKind(options: OracleOptions): OracleKind {
  const { policy: bound, site, controlDelayNs } = options;
  const { policy, parameters } = bound;
  const beatNs = oracleBeatNs(bound);
  let current: { state: OracleState; context: OracleContext } | undefined;
  const random = (): number => (current as NonNullable<typeof current>).context.random('oracle');
  const actions: OracleActions = {
    probe(from, to, forthBytes, backBytes) {
      const { state, context } = current as NonNullable<typeof current>;
      const [source, destination] = [placeOf(options, from), placeOf(options, to)];
      if (!(isSize(forthBytes) && isSize(backBytes) && forthBytes > 0))
        throw new RangeError(
          `probes with ${forthBytes} bytes forth and ${backBytes} back; it must be whole numbers up to 2^53 - 1, of at least 1 forth and 0 back`,
        );
      const probe = state.probeCount++;
      state.probes.set(probe, { from, to, forthBytes, backBytes });
      context.send(source.prober.id, probeOrder, controlDelayNs, probe, source.node, destination.node, forthBytes, backBytes);
    },
  };
  const viewAt = (nowNs: number, known: NetworkSite): OracleView => ({
    nowNs,
    engines: options.engines.length,
    site: known,
    paths: options.readsPaths,
  });
  const asked = (state: OracleState, context: OracleContext, about: string, number: number, run: (known: NetworkSite) => void): void => {
    current = { state, context };
    askOfSite(bound, about, number, site, run);
  };
  /** Once an instant, behind all reports of it. */
  const publishSoon = (state: OracleState, context: OracleContext): void => {
    if (state.publishing) return;
    state.publishing = true;
    context.send(context.self, publishDue, 0);
  };
  const publish = (state: OracleState, context: OracleContext): void => {
    asked(state, context, 'what to publish', state.publications, (known) => {
      const made =
        policy.publish === undefined
          ? { madeAtNs: context.now, knowledge: state.policy }
          : policy.publish(viewAt(context.now, known), parameters, state.policy, random);
      if (made === null) return;
      state.publications++;
      state.publishedAtNs = context.now;
      for (const frontend of options.frontends)
        context.sendBody(
          frontend.id,
          oracleKnowledge,
          controlDelayNs,
          { knowledge: copyValue(made.knowledge, 'what an oracle publishes') },
          made.madeAtNs,
        );
    });
  };
  const beat = (state: OracleState, context: OracleContext): void => {
    asked(state, context, 'at its beat', 0, (known) =>
      policy.beat?.(viewAt(context.now, known), actions, parameters, state.policy, random),
    );
    publishSoon(state, context);
    state.beating = true;
    context.timer(beatDue, beatNs - (context.now % beatNs));
  };
  return actorKind({
    name: 'oracle',
    messages,
    streams: ['oracle'] as const,
    state: (): OracleState => ({
      policy: policyState(bound, options.engines.length),
      telemetryLost: false,
      busyFrontends: 0,
      publishing: false,
      beating: false,
      publishedAtNs: -1,
      probes: new Map(),
      probeCount: 0,
      publications: 0,
      reports: 0,
    }),
    on: {
      linkReport: (state: OracleState, view, context) => {
        if (state.telemetryLost || policy.observe === undefined) return;
        const { link, utilisation, transferBytes, flows, marks, pausedNs } = view;
        state.reports++;
        asked(state, context, `to take a report of link ${link}`, state.reports, (known) =>
          policy.observe?.(
            { nowNs: context.now, link, utilisation, transferBytes, flows, marks, pausedNs, site: known },
            parameters,
            state.policy,
          ),
        );
        publishSoon(state, context);
      },
      probeEnded: (state: OracleState, { probe, status, forthNs, backNs }, context) => {
        const sent = state.probes.get(probe);
        if (sent === undefined) throw new KernelError('bad-value', `probe ${probe} has ended, but is not under way`);
        state.probes.delete(probe);
        if (state.telemetryLost) return;
        asked(state, context, `to take a probe from engine ${sent.from} to ${sent.to}`, probe, (known) =>
          policy.probed?.({ nowNs: context.now, ...sent, lost: status !== 0, forthNs, backNs, site: known }, parameters, state.policy),
        );
        publishSoon(state, context);
      },
      oracleWatch: (state: OracleState, { busy }, context) => {
        state.busyFrontends += busy === 1 ? 1 : -1;
        if (state.busyFrontends > 0 && !state.beating) beat(state, context);
      },
      setTelemetryLoss: (state: OracleState, view) => {
        state.telemetryLost = view.lost === 1;
      },
      publishDue: (state: OracleState, _view, context) => {
        state.publishing = false;
        publish(state, context);
      },
      beatDue: (state: OracleState, _view, context) => {
        state.beating = false;
        if (state.busyFrontends > 0) beat(state, context);
      },
    },
  });
}

/** How often an oracle speaks at least while requests are in flight. @throws KernelError `bad-option` for what is no time. */
export function oracleBeatNs(bound: BoundPolicy<OraclePolicy>): number {
  const beatNs = bound.policy.beatNs?.(bound.parameters) ?? defaultBeatNs;
  if (Number.isSafeInteger(beatNs) && beatNs >= 1) return beatNs;
  throw new KernelError(
    'bad-option',
    `oracle policy '${bound.policy.name}' (${bound.source}) has a beat of ${beatNs} ns; whole ns, at least 1`,
  );
}

const isSize = (bytes: number): boolean => Number.isSafeInteger(bytes) && bytes >= 0;

function placeOf(options: OracleOptions, engine: number): ProbePlace {
  const place = options.places[engine];
  if (place === undefined)
    throw new RangeError(`probes from or to engine ${engine}; engines are numbered 0 to ${options.engines.length - 1}`);
  return place;
}
