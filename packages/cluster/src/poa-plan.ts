import type { PoaActorOptions } from './poa-actor.js';
import type { Scenario } from './scenario/schema.js';

/** What a scenario's price-of-anarchy actor needs; undefined where there is none. `delayNs`: the longest delay of a message to it. */
export function poaActorOptions({ telemetry, workload }: Scenario, delayNs: number): PoaActorOptions | undefined {
  const { poa } = telemetry;
  if (poa === undefined) return undefined;
  const { slopeSeconds, interceptSeconds, poleScale, saturationLoad, poleExponent } = poa;
  const { definition, rows, slotsPerWorker, loadNotion, aggregate, pastPole, minimumInFlight } = poa;
  const ttftSloMs = workload.slo?.ttftMs;
  return {
    periodNs: Math.round(poa.everySeconds * 1e9),
    delayNs,
    windowNs: Math.round(poa.windowSeconds * 1e9),
    latency: { slopeSeconds, interceptSeconds, poleScale, saturationLoad, poleExponent },
    poa: { definition, rows, slotsPerWorker, loadNotion, aggregate, pastPole, minimumInFlight },
    ...(ttftSloMs === undefined ? {} : { ttftSloMs }),
    alarmFactor: poa.alarmFactor,
    alarmSamples: poa.alarmSamples,
  };
}
