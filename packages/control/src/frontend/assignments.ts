import { type ActorId, type Context, message } from '@braess/kernel';
import { assignments, type MeasureListener, untilMomentNs } from '@braess/protocol';

/** frontend -> itself: the listener is to be told now. */
export const assignmentsDue = message('assignmentsDue');

/** Assignments gathered since the last report. Plain data. */
export interface AssignmentGathering {
  request: number[];
  worker: number[];
  change: number[];
  armed: boolean;
}

export function createAssignments(): AssignmentGathering {
  return { request: [], worker: [], change: [], armed: false };
}

export function noteAssignment(gathering: AssignmentGathering, request: number, worker: number, change: number): void {
  gathering.request.push(request);
  gathering.worker.push(worker);
  gathering.change.push(change);
}

/** Makes sure that the listener hears of what was noted, at its next moment. */
export function armAssignments(gathering: AssignmentGathering, listener: MeasureListener, context: Context): void {
  if (gathering.armed || gathering.worker.length === 0) return;
  gathering.armed = true;
  context.timer(assignmentsDue, untilMomentNs(context.now, listener.periodNs));
}

export function sendAssignments(gathering: AssignmentGathering, listener: MeasureListener, context: Context): void {
  const { request, worker, change } = gathering;
  const columns = { request: Float64Array.from(request), worker: Int32Array.from(worker), change: Int8Array.from(change) };
  context.sendBody(listener.actor.id as ActorId, assignments, listener.delayNs, columns, worker.length);
  Object.assign(gathering, createAssignments());
}
