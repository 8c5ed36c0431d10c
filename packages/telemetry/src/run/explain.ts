import { readManifest } from './folder.js';
import { openRunDatabase, type RunDatabase } from './query.js';

/** One step of a request's life. */
export interface ExplainLine {
  /** Simulated time of the step, and ms since arrival. */
  timeNs: number;
  sinceArrivalMs: number;
  step: 'arrival' | 'decision' | 'queue' | 'tier fetch' | 'prefill' | 'transfer' | 'first token' | 'tokens' | 'end';
  /** Where it happened: an actor's name, or empty. */
  where: string;
  text: string;
  /** What a decision saw: its recorded candidates, the chosen one marked, cheapest first. Empty for other steps. */
  candidates: ExplainCandidate[];
}

/** A candidate of a decision, as the decider saw it. */
export interface ExplainCandidate {
  name: string;
  chosen: boolean;
  /** What was seen of it; null for what was not. */
  score: number | null;
  overlapBlocks: number | null;
  prefillBlocks: number | null;
  activeBlocks: number | null;
  transferMs: number | null;
  congestion: number | null;
  networkTier: string | null;
  viewAgeMs: number | null;
}

type Row = Record<string, unknown>;

/** One request's life from arrival to its end, in order of time, with what each decision saw. Throws when the run has no such request. */
export async function explainRequest(folder: string, requestId: number): Promise<ExplainLine[]> {
  if (!Number.isInteger(requestId))
    throw new RangeError(`request id ${requestId} is not a whole number; give the request_id of a row of requests`);
  const database = await openRunDatabase(folder);
  try {
    const [request] = await rowsOf(database, `select * from requests where request_id = ${requestId}`);
    if (request === undefined) {
      const [range] = await rowsOf(database, 'select min(request_id) as low, max(request_id) as high, count(*) as n from requests');
      throw new RangeError(`run ${folder} has no request ${requestId}; its ${range!.n} requests have ids ${range!.low} to ${range!.high}`);
    }
    const decisions = await rowsOf(
      database,
      `select * from decisions where request_id = ${requestId} order by time_ns, decision_id, score nulls last, candidate`,
    );
    const lines = [...requestLines(request, admissionPolicyOf(folder)), ...decisionLines(decisions, Number(request.arrival_ns))];
    // A stable sort: steps at the same time stay in the order of a request's life.
    return lines
      .map((line, i) => ({ line, i }))
      .sort((a, b) => a.line.timeNs - b.line.timeNs || rank(a.line) - rank(b.line) || a.i - b.i)
      .map(({ line }) => line);
  } finally {
    database.close();
  }
}

const STEP_ORDER: readonly ExplainLine['step'][] = [
  'arrival',
  'decision',
  'queue',
  'tier fetch',
  'prefill',
  'transfer',
  'first token',
  'tokens',
  'end',
];

function rank(line: ExplainLine): number {
  return STEP_ORDER.indexOf(line.step);
}

/** The admission policy as the scenario names it, for requests whose decisions were not recorded; null where there is none. */
function admissionPolicyOf(folder: string): string | null {
  const { scenario } = readManifest(folder) as { scenario: { router?: { admission?: { policy?: unknown } } } | null };
  const policy = scenario?.router?.admission?.policy;
  return typeof policy === 'string' ? policy : null;
}

function requestLines(request: Row, admissionPolicy: string | null): ExplainLine[] {
  const arrivalNs = Number(request.arrival_ns);
  const lines: ExplainLine[] = [];
  const add = (time: unknown, step: ExplainLine['step'], where: unknown, text: string): void => {
    if (typeof time !== 'number') return;
    lines.push({ timeNs: time, sinceArrivalMs: (time - arrivalNs) / 1e6, step, where: String(where ?? ''), text, candidates: [] });
  };
  const prefill = request.prefill_worker;
  const decode = request.decode_worker ?? prefill;
  add(arrivalNs, 'arrival', '', `arrived from tenant ${request.tenant} with ${request.input_tokens} input tokens`);
  const attempts = Number(request.attempts);
  // Of earlier attempts only the decisions are kept; what they took is no waiting.
  const earlier =
    attempts > 1 ? `, in the last of ${attempts} attempts that a frontend had; of those before, decisions are all that is recorded` : '';
  const waitedMs = attempts > 1 ? (Number(request.prefill_start_ns) - Number(request.queued_ns)) / 1e6 : request.queue_ms;
  add(request.queued_ns, 'queue', prefill, `entered the queue${earlier}`);
  const waited = `after ${ms(waitedMs)} of waiting`;
  const isFetched = Number(request.tier_fetch_ns) > 0;
  const computingNs = typeof request.prefill_start_ns === 'number' ? request.prefill_start_ns + Number(request.tier_fetch_ns) : null;
  if (isFetched) {
    add(request.prefill_start_ns, 'tier fetch', prefill, `KV fetch from lower tiers started ${waited}: ${fetchText(request)}`);
    add(
      computingNs,
      'tier fetch',
      prefill,
      `KV fetch ended after ${ms(request.tier_fetch_ms)}${rateText(request.tier_fetch_bytes, request.tier_fetch_ms)}`,
    );
  }
  add(computingNs, 'prefill', prefill, `prefill started ${isFetched ? 'with what was fetched' : waited}; ${cacheText(request)}`);
  add(request.prefill_end_ns, 'prefill', prefill, `prefill ended after ${ms(request.prefill_ms)}`);
  const waitMs = (Number(request.transfer_start_ns) - Number(request.prefill_end_ns)) / 1e6;
  add(
    request.transfer_start_ns,
    'transfer',
    decode,
    `KV transfer started ${waitMs < 0 ? `${ms(-waitMs)} before the end of the prefill` : `after ${ms(waitMs)} of waiting`}${tierText(request)}, ${sizeText(Number(request.transfer_bytes))}`,
  );
  add(
    request.transfer_end_ns,
    'transfer',
    decode,
    `KV transfer ended after ${ms(request.transfer_ms)}${rateText(request.transfer_bytes, request.transfer_ms)}`,
  );
  const isPrefills = typeof request.first_token_ns === 'number' && Number(request.transfer_end_ns) > request.first_token_ns;
  add(request.first_token_ns, 'first token', isPrefills ? prefill : decode, `first token: TTFT ${ms(request.ttft_ms)}`);
  if (Number(request.output_tokens) > 1) {
    add(
      request.last_token_ns,
      'tokens',
      decode,
      `last of ${request.output_tokens} tokens: TPOT ${ms(request.tpot_ms)}, longest gap ${ms(request.max_itl_ms)}`,
    );
  }
  add(request.end_ns, 'end', '', endText(request, admissionPolicy));
  if (typeof request.end_ns !== 'number') add(lastTime(request), 'end', '', 'still in flight when the run ended');
  return lines;
}

function decisionLines(rows: readonly Row[], arrivalNs: number): ExplainLine[] {
  const lines = new Map<unknown, ExplainLine>();
  for (const row of rows) {
    let line = lines.get(row.decision_id);
    if (line === undefined) {
      const timeNs = Number(row.time_ns);
      line = {
        timeNs,
        sinceArrivalMs: (timeNs - arrivalNs) / 1e6,
        step: 'decision',
        where: String(row.actor ?? ''),
        text: '',
        candidates: [],
      };
      lines.set(row.decision_id, line);
    }
    if (row.kind === 'admission') {
      line.text = admissionText(row);
      continue;
    }
    const candidate = candidateOf(row);
    line.candidates.push(candidate);
    if (candidate.chosen || line.text === '') {
      const choice = candidate.chosen ? `chose ${candidate.name}` : 'chose none of the recorded';
      const note = typeof row.note === 'string' ? ` (${row.note})` : '';
      line.text = `${String(row.kind).replaceAll('_', ' ')} by policy ${row.policy}: ${choice} of ${row.candidates}${note}`;
    }
  }
  return [...lines.values()];
}

function admissionText(row: Row): string {
  const seen = `${row.inflight_requests} in flight and ${row.waiting_requests} waiting at this frontend, ${row.active_prefill_tokens} prompt tokens under way at the engines`;
  return `admission by policy ${row.policy}: ${row.chosen === true ? 'let in' : 'rejected'} with ${seen}`;
}

function candidateOf(row: Row): ExplainCandidate {
  const number = (key: string): number | null => (typeof row[key] === 'number' ? (row[key] as number) : null);
  return {
    name: String(row.candidate ?? ''),
    chosen: row.chosen === true,
    score: number('score'),
    overlapBlocks: number('overlap_blocks'),
    prefillBlocks: number('prefill_blocks'),
    activeBlocks: number('active_blocks'),
    transferMs: number('transfer_ms'),
    congestion: number('congestion'),
    networkTier: typeof row.network_tier === 'string' ? row.network_tier : null,
    viewAgeMs: number('view_age_ms'),
  };
}

function cacheText(request: Row): string {
  const cached = Number(request.cached_tokens);
  if (cached === 0) return 'nothing was cached';
  return `${cached} of ${request.input_tokens} tokens were cached (${tierTokens(request, 'g1', 'g2', 'g3', 'g4')})`;
}

/** Tokens and bytes by tier; of blocks that were lost on the way none are of use. */
function fetchText(request: Row): string {
  const tokens = tierTokens(request, 'g2', 'g3', 'g4');
  const size = sizeText(Number(request.tier_fetch_bytes));
  return tokens === '' ? `${size} came, not all that was asked for, and none was of use` : `tokens of ${tokens}, ${size}`;
}

function tierTokens(request: Row, ...tiers: readonly string[]): string {
  const found = tiers.flatMap((tier) => {
    const tokens = Number(request[`cached_tokens_${tier}`]);
    return tokens > 0 ? `${tier.toUpperCase()} ${tokens}` : [];
  });
  return found.join(', ');
}

function endText(request: Row, admissionPolicy: string | null): string {
  const who = request.reason === 'admission' && admissionPolicy !== null ? ` by policy ${admissionPolicy}` : '';
  const reason = request.reason === 'none' ? '' : ` (${String(request.reason).replaceAll('_', ' ')}${who})`;
  const attempts = Number(request.attempts) > 1 ? ` after ${request.attempts} attempts` : '';
  const preempted = Number(request.preemptions) > 0 ? `, preempted ${request.preemptions} times` : '';
  const total = typeof request.e2e_ms === 'number' ? `: E2E ${ms(request.e2e_ms)}` : '';
  return `${String(request.outcome).replaceAll('_', ' ')}${reason}${attempts}${preempted}${total}`;
}

function lastTime(request: Row): number {
  const times = [
    'arrival_ns',
    'queued_ns',
    'prefill_start_ns',
    'prefill_end_ns',
    'transfer_start_ns',
    'transfer_end_ns',
    'first_token_ns',
    'last_token_ns',
  ];
  return Math.max(...times.map((key) => (typeof request[key] === 'number' ? (request[key] as number) : 0)));
}

function tierText(request: Row): string {
  return typeof request.network_tier === 'string' ? ` over ${request.network_tier}` : '';
}

function rateText(bytes: unknown, ms: unknown): string {
  const seconds = Number(ms) / 1000;
  return seconds > 0 ? ` (${(Number(bytes) / seconds / 1e9).toFixed(2)} GB/s)` : '';
}

function sizeText(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(2)} MB`;
}

function ms(value: unknown): string {
  return typeof value === 'number' ? `${value.toFixed(3)} ms` : 'unknown time';
}

async function rowsOf(database: RunDatabase, sql: string): Promise<Row[]> {
  const { columns, rows } = await database.query(sql);
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}
