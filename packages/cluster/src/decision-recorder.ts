import { type AdmissionBody, type ControllerChangeBody, type DecisionBody, decisionColumns, routerStage } from '@braess/control';
import type { RunRecord } from '@braess/kernel';
import { engineRole } from '@braess/protocol';
import { appendDecision, DECISION_KIND, type DecisionRecord, emptyDecisionRecord, type RunTables } from '@braess/telemetry';

const roleNames = Object.keys(engineRole); // In the order of their numbers.

/** Writes what routers, admission policies, planners and controllers decided into the table of decisions, numbered through the run. */
export class DecisionRecorder {
  readonly #tables: RunTables;
  /** Of routing decisions, which are many. */
  readonly #routing = emptyDecisionRecord();
  #decisions = 0;

  constructor(tables: RunTables) {
    this.#tables = tables;
  }

  routing(record: RunRecord): void {
    const [requestId, stage, candidates] = record.fields as [number, number, number];
    const { policy, rows } = record.body as DecisionBody;
    const width = decisionColumns.length;
    const decision = this.#routing;
    decision.timeNs = record.timeNs;
    decision.decisionId = this.#decisions++;
    decision.kind = stage === routerStage.decode ? DECISION_KIND.decodeRoute : DECISION_KIND.prefillRoute;
    decision.actorId = record.actor;
    decision.requestId = requestId;
    decision.policyId = this.#policyId(policy);
    decision.candidates = candidates;
    for (let at = 0; at < rows.length; at += width) {
      decision.candidateId = rows[at] as number;
      decision.chosen = rows[at + 1] === 1;
      decision.score = rows[at + 2] as number;
      decision.overlapBlocks = rows[at + 3] as number;
      decision.prefillBlocks = rows[at + 4] as number;
      decision.activeBlocks = rows[at + 5] as number;
      decision.transferMs = rows[at + 6] as number;
      decision.congestion = rows[at + 7] as number;
      decision.networkTier = rows[at + 8] as number;
      decision.viewAgeNs = rows[at + 9] as number;
      appendDecision(this.#tables.decisions, decision);
    }
  }

  admission(record: RunRecord): void {
    const [requestId, admitted, inFlightRequests, waitingRequests, activePrefillTokens] = record.fields as [
      number,
      number,
      number,
      number,
      number,
    ];
    const { policy } = record.body as AdmissionBody;
    this.#append(record, policy, {
      kind: DECISION_KIND.admission,
      requestId,
      chosen: admitted === 1,
      inFlightRequests,
      waitingRequests,
      activePrefillTokens,
    });
  }

  plan(record: RunRecord): void {
    const [order, candidateId, role] = record.fields as [number, number, number];
    const { policy } = record.body as { readonly policy: string };
    const note = `${['change to', 'start as', 'stop'][order]} ${roleNames[role]}`;
    this.#append(record, policy, { kind: DECISION_KIND.plan, candidateId, candidates: 1, chosen: true, noteId: this.#noteId(note) });
  }

  control(record: RunRecord): void {
    const [candidateId] = record.fields as [number];
    const { policy, parameters } = record.body as ControllerChangeBody;
    const values = Object.entries(parameters).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
    const note = `${candidateId < 0 ? 'set' : 'move clients to'} ${values.join(', ')}`;
    this.#append(record, policy, { kind: DECISION_KIND.control, candidateId, candidates: 1, chosen: true, noteId: this.#noteId(note) });
  }

  #append(record: RunRecord, policy: string, seen: Partial<DecisionRecord>): void {
    appendDecision(this.#tables.decisions, {
      ...emptyDecisionRecord(),
      ...seen,
      timeNs: record.timeNs,
      decisionId: this.#decisions++,
      actorId: record.actor,
      policyId: this.#policyId(policy),
    });
  }

  #policyId(name: string): number {
    return nameId(this.#tables.names.policies as string[], name);
  }

  #noteId(note: string): number {
    return nameId(this.#tables.names.notes as string[], note);
  }
}

/** Place of a name in a list, which grows by it when it is new. */
function nameId(names: string[], name: string): number {
  const known = names.indexOf(name);
  return known >= 0 ? known : names.push(name) - 1;
}
