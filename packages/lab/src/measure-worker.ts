import { type Measurement, type MeasureTask, measureScenario } from './measure-scenario.js';

/** The piscina task of a measurement pool: one run on this thread, which stays warm for the next. */
export default function measure(task: MeasureTask): Promise<Measurement> {
  return measureScenario(task);
}
