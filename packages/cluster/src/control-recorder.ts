import type { ControllerChangeBody } from '@braess/control';
import type { RunRecord } from '@braess/kernel';
import { engineRole, engineStatus, isMoving } from '@braess/protocol';
import { appendDecision, appendSample, DECISION_KIND, emptyDecisionRecord, type RunTables, SERIES_METRICS } from '@braess/telemetry';

/** Number of each series by its name. */
export const metric = Object.fromEntries(SERIES_METRICS.map((name, id) => [name, id])) as Record<string, number>;

/** Place of a name in a list, which grows by it when it is new. */
export function nameId(names: string[], name: string): number {
  const known = names.indexOf(name);
  return known >= 0 ? known : names.push(name) - 1;
}

const roleNames = Object.keys(engineRole); // In the order of their numbers.

/** Records of planners and controllers: few, and each a decision of its own. */
export class ControlRecorder {
  readonly #tables: RunTables;
  readonly #roles: Map<number, number>;
  readonly #moving = new Set<number>();
  readonly #gpusOfEngine: ReadonlyMap<number, readonly number[]>;
  /** When each engine that is off was first seen so. */
  readonly #offSince = new Map<number, number>();
  #offGpuNs = 0;
  #orders = 0;

  constructor(
    tables: RunTables,
    { rolesOfEngine, gpusOfEngine }: { rolesOfEngine: ReadonlyMap<number, number>; gpusOfEngine: ReadonlyMap<number, readonly number[]> },
  ) {
    this.#tables = tables;
    this.#gpusOfEngine = gpusOfEngine;
    this.#roles = new Map(rolesOfEngine);
    if (this.#roles.size > 0) this.#sampleRoles(0);
  }

  /** False when the record is none of these. */
  take(record: RunRecord): boolean {
    switch (record.type) {
      case 'plannerOrder':
        this.#order(record);
        return true;
      case 'engineRoleSeen':
        this.#role(record);
        return true;
      case 'controllerSample':
        this.#scrape(record);
        return true;
      case 'controllerChange':
        this.#change(record);
        return true;
      default:
        return false;
    }
  }

  /** GPU-time that planners had given back by `endNs`, ns: from the end of the drain to the order's start-up, as the planner saw them. */
  givenBackGpuNs(endNs: number): number {
    let sum = this.#offGpuNs;
    for (const [engine, sinceNs] of this.#offSince) sum += this.#gpusOf(engine) * Math.max(0, endNs - sinceNs);
    return sum;
  }

  #gpusOf(engine: number): number {
    return this.#gpusOfEngine.get(engine)?.length ?? 0;
  }

  #order(record: RunRecord): void {
    const [kind, engine, role] = record.fields as [number, number, number];
    const { policy } = record.body as { readonly policy: string };
    const note = `${['change to', 'start as', 'stop'][kind]} ${roleNames[role]}`;
    this.#decision(record, { kind: DECISION_KIND.plan, id: this.#orders++, policy, candidate: engine, note });
  }

  #role(record: RunRecord): void {
    const [engine, role, status] = record.fields as [number, number, number];
    this.#roles.set(engine, status === engineStatus.dead || status === engineStatus.off ? -1 : role);
    if (isMoving(status)) this.#moving.add(engine);
    else this.#moving.delete(engine);
    const offSince = this.#offSince.get(engine);
    if (status === engineStatus.off && offSince === undefined) this.#offSince.set(engine, record.timeNs);
    else if (status !== engineStatus.off && offSince !== undefined) {
      this.#offGpuNs += this.#gpusOf(engine) * (record.timeNs - offSince);
      this.#offSince.delete(engine);
    }
    this.#sampleRoles(record.timeNs);
  }

  #sampleRoles(timeNs: number): void {
    let prefill = 0;
    let decode = 0;
    let off = 0;
    for (const [engine, role] of this.#roles) {
      if (this.#moving.has(engine)) continue;
      if (role === engineRole.prefill) prefill++;
      else if (role === engineRole.decode) decode++;
      else if (role < 0) off++;
    }
    const { series } = this.#tables;
    appendSample(series, timeNs, metric.prefill_engines as number, -1, prefill);
    appendSample(series, timeNs, metric.decode_engines as number, -1, decode);
    appendSample(series, timeNs, metric.moving_engines as number, -1, this.#moving.size);
    appendSample(series, timeNs, metric.off_engines as number, -1, off);
  }

  #scrape(record: RunRecord): void {
    const [ttftP99Ms, , , poa] = record.fields as [number, number, number, number];
    const { series } = this.#tables;
    if (!Number.isNaN(ttftP99Ms)) appendSample(series, record.timeNs, metric.scraped_ttft_p99 as number, record.actor, ttftP99Ms / 1e3);
    if (!Number.isNaN(poa)) appendSample(series, record.timeNs, metric.placement_poa as number, record.actor, poa);
  }

  #change(record: RunRecord): void {
    const [id, frontend] = record.fields as [number, number];
    const { policy, parameters } = record.body as ControllerChangeBody;
    const values = Object.entries(parameters).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
    const note = `${frontend < 0 ? 'set' : 'move clients to'} ${values.join(', ')}`;
    this.#decision(record, { kind: DECISION_KIND.control, id, policy, candidate: frontend, note });
  }

  #decision(
    record: RunRecord,
    { kind, id, policy, candidate, note }: { kind: number; id: number; policy: string; candidate: number; note: string },
  ): void {
    const { names, decisions } = this.#tables;
    appendDecision(decisions, {
      ...emptyDecisionRecord(),
      timeNs: record.timeNs,
      decisionId: id,
      kind,
      actorId: record.actor,
      policyId: nameId(names.policies as string[], policy),
      candidateId: candidate,
      candidates: 1,
      chosen: true,
      noteId: nameId(names.notes as string[], note),
    });
  }
}
