import { z } from 'zod';

const positive = z.number().positive().finite();
const tokens = z.int().min(1);

const lengthSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('constant'), tokens }),
  z.strictObject({ kind: z.literal('uniform'), minTokens: tokens, maxTokens: tokens }),
  z.strictObject({
    kind: z.literal('lognormal'),
    meanTokens: positive.describe('Mean before clipping'),
    sigma: z.number().min(0).max(10).describe('Standard deviation of the logarithm'),
    minTokens: tokens.optional(),
    maxTokens: tokens.optional(),
  }),
  z.strictObject({ kind: z.literal('exponential'), meanTokens: positive, minTokens: tokens.optional(), maxTokens: tokens.optional() }),
  z.strictObject({
    kind: z.literal('quantiles'),
    points: z.array(z.tuple([z.number().min(0).max(1), tokens])).min(2),
    interpolation: z.enum(['linear', 'logarithmic']).optional(),
  }),
]);

const arrivalSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('constant'), ratePerSecond: positive }),
  z.strictObject({ kind: z.literal('poisson'), ratePerSecond: positive }),
  z.strictObject({ kind: z.literal('gamma'), ratePerSecond: positive, cv: z.number().min(0.05).max(20) }),
  z.strictObject({
    kind: z.literal('on-off'),
    onRatePerSecond: positive,
    offRatePerSecond: z.number().min(0),
    meanOnS: positive,
    meanOffS: positive,
  }),
  z.strictObject({
    kind: z.literal('diurnal'),
    meanRatePerSecond: positive,
    amplitude: z.number().min(0).max(1),
    periodS: positive,
    peakS: z.number(),
  }),
]);

const prefixSchema = z.strictObject({
  groups: z.int().min(1).describe('Shared system prompts'),
  popularity: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('uniform') }),
    z.strictObject({ kind: z.literal('zipf'), exponent: z.number().min(0).max(10) }),
  ]),
  prefixTokens: lengthSchema,
});

const independentPrefixSchema = prefixSchema.extend({
  share: z.number().min(0).max(1).optional().describe('Share of the requests that begin with one; default all'),
  part: z
    .enum(['added', 'included'])
    .optional()
    .describe('Whether it comes before the input tokens (the default) or is the beginning of them'),
});

const sourceSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('trace'),
    file: z.string().min(1).describe('Trace file, plain or .gz, beside the scenario; the command line has --trace'),
    format: z.enum(['mooncake', 'azure', 'burstgpt', 'dynamo', 'plain']).optional().describe('Default: told from the first line'),
    arrivals: z.enum(['spread', 'as-is']).default('spread').describe('Spread equal timestamps over the clock tick of the format'),
    badRows: z.enum(['stop', 'count']).default('stop'),
    prefixBlockTokens: tokens.default(16).describe('Block size for prefix groups of a plain CSV'),
    slice: z
      .strictObject({
        fromSeconds: z.number().min(0).default(0),
        minInputTokens: tokens.default(1),
        maxInputTokens: tokens.optional(),
      })
      .optional()
      .describe('Part of the trace: requests from a time on, with prompts within limits'),
  }),
  z.strictObject({
    kind: z.literal('independent'),
    arrivals: arrivalSchema,
    inputTokens: lengthSchema,
    outputTokens: lengthSchema,
    prefix: independentPrefixSchema.optional(),
    blockTokens: tokens.optional(),
  }),
  z.strictObject({
    kind: z.literal('sessions'),
    sessionArrivals: arrivalSchema,
    turns: lengthSchema,
    firstTokens: lengthSchema,
    turnTokens: lengthSchema,
    outputTokens: lengthSchema,
    meanThinkS: z.number().min(0),
    answerS: z.number().min(0).optional(),
    answerMsPerToken: z.number().min(0).optional(),
    maxInputTokens: tokens,
    prefix: prefixSchema.optional(),
    blockTokens: tokens.optional(),
  }),
  z.strictObject({ kind: z.literal('mooncake-like'), arrivals: arrivalSchema.optional() }),
]);

const sloSchema = z.strictObject({
  ttftMs: positive.optional(),
  tpotMs: positive.optional(),
  itlMs: positive.optional(),
  e2eMs: positive.optional(),
});

const tenantSchema = z.strictObject({
  name: z.string().min(1),
  share: positive.describe('Relative weight'),
  priority: z.number().optional().describe('Larger is more urgent'),
  slo: sloSchema.optional(),
});

const clientSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('open-loop') }).describe('Requests come at their time, whatever the state of the cluster'),
  z
    .strictObject({
      kind: z.literal('closed-loop'),
      style: z.enum(['workers', 'semaphore']).default('workers'),
      inFlight: z.int().min(1).default(1).describe('Most requests at a time, where there are no phases'),
      phases: z
        .array(z.strictObject({ seconds: positive, inFlight: z.int().min(0) }))
        .min(1)
        .optional()
        .describe('Numbers in flight over time, each beginning with a burst of fresh requests; nothing is sent after the last'),
      backlog: z
        .boolean()
        .default(false)
        .describe('Semaphore: tasks always wait, arrival times are ignored, and a request comes when it has its permit'),
      moves: z
        .array(z.strictObject({ atSeconds: z.number().min(0), frontend: z.int().min(0) }))
        .default([])
        .describe('When new requests go to another frontend, by its number'),
      answerJitterUs: z
        .number()
        .min(0)
        .default(0)
        .describe('Answers are noticed up to this much later, uniformly: sockets are read in turn'),
      permitsLostByMove: z
        .int()
        .min(0)
        .default(0)
        .describe('Permits that are never given back after a move: tasks cancelled without release'),
      meanThinkMs: z.number().min(0).default(0),
      think: z.enum(['constant', 'exponential']).default('exponential'),
      taskLimit: z.int().min(0).default(1_000_000).describe('Semaphore: tasks that may wait'),
    })
    .describe('A fixed number of requests in flight'),
  z
    .strictObject({
      kind: z.literal('policy'),
      policy: z.string().describe('.ts or .js file beside the scenario, or package:name'),
      parameters: z.record(z.string(), z.json()).default({}),
    })
    .describe('A client policy of your own decides when each request is sent'),
]);

const connectionsSchema = z.strictObject({
  connections: z.int().min(1),
  order: z
    .enum(['fifo', 'lifo', 'random', 'barge', 'aiohttp'])
    .default('fifo')
    .describe('Who gets a connection that is given back: of those who wait, or by the rule of a client library (barge, aiohttp)'),
  bargeShare: z.number().min(0).max(1).default(0).describe('barge: probability that whoever asks next is served before those who wait'),
  tickUs: z.number().min(0).default(0).describe('aiohttp: connections given back within this time of the first are of one tick'),
  queueLimit: z.int().min(0).default(1_000_000),
});

const retrySchema = z.strictObject({
  timeoutMs: positive.optional(),
  deadlineMs: positive.optional(),
  attempts: z.int().min(1).max(255).default(1),
  backoffMs: z.number().min(0).default(0),
  backoffFactor: z.number().min(1).max(100).default(1),
  maxBackoffMs: z.number().min(0).default(60_000),
  jitter: z.enum(['none', 'equal', 'full']).default('none'),
});

export const workloadSchema = z.strictObject({
  source: sourceSchema,
  requests: z.int().min(1).max(100_000_000).optional().describe('Stop after so many requests'),
  rateFactor: positive.default(1).describe('Arrivals come this many times faster'),
  client: clientSchema.default({ kind: 'open-loop' }),
  connections: connectionsSchema.optional().describe('Connection limit of the client'),
  sessions: z
    .strictObject({
      next: z
        .enum(['arrival', 'think'])
        .default('arrival')
        .describe('When a turn comes: at its own time, or a think time after the answer'),
      meanThinkMs: z.number().min(0).default(0),
      think: z.enum(['constant', 'exponential']).default('exponential'),
      afterFailure: z.enum(['continue', 'abandon']).default('continue'),
    })
    .optional()
    .describe('Later turns of a session wait for the answer before; default every request comes by itself'),
  retry: retrySchema.optional().describe('Timeout, cancel and retry of the client'),
  tenants: z.array(tenantSchema).default([]),
  slo: sloSchema.optional().describe('What a request must meet to count as good'),
});
