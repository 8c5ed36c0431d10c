import type { RunRecord } from '@braess/kernel';
import { engineRole, engineStatus, isMoving } from '@braess/protocol';
import { appendSample, type RunTables, SERIES_METRICS } from '@braess/telemetry';

/** Number of each series by its name. */
export const metric = Object.fromEntries(SERIES_METRICS.map((name, id) => [name, id])) as Record<string, number>;

/** What planners and controllers see of the cluster, as series. */
export class ControlRecorder {
  readonly #tables: RunTables;
  readonly #roles: Map<number, number>;
  readonly #moving = new Set<number>();
  readonly #gpusOfEngine: ReadonlyMap<number, readonly number[]>;
  /** When each engine that is off was first seen so. */
  readonly #offSince = new Map<number, number>();
  #offGpuNs = 0;

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
      case 'engineRoleSeen':
        this.#role(record);
        return true;
      case 'controllerSample':
        this.#scrape(record);
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
}
