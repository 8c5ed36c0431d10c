import { z } from 'zod';
import { count, notNegative, positive, share } from './described.js';

/** A number of tokens. */
const tokens = (description: string) => count(description);
const leastTokens = tokens('Shortest: what is drawn below becomes this').optional();
const mostTokens = tokens('Longest: what is drawn above becomes this').optional();
const ratePerSecond = positive('Arrivals a second');
const think = z.enum(['constant', 'exponential']).default('exponential').describe('How think times spread about their mean');
const meanThinkMs = notNegative('Mean think time, ms').default(0);

const lengthSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('constant'), tokens: tokens('Length of each') }),
  z.strictObject({ kind: z.literal('uniform'), minTokens: tokens('Shortest'), maxTokens: tokens('Longest; all between are as likely') }),
  z.strictObject({
    kind: z.literal('lognormal'),
    meanTokens: positive('Mean before clipping'),
    sigma: z.number().min(0).max(10).describe('Standard deviation of the logarithm'),
    minTokens: leastTokens,
    maxTokens: mostTokens,
  }),
  z.strictObject({
    kind: z.literal('exponential'),
    meanTokens: positive('Mean before clipping'),
    minTokens: leastTokens,
    maxTokens: mostTokens,
  }),
  z.strictObject({
    kind: z.literal('quantiles'),
    points: z
      .array(z.tuple([share('Probability'), tokens('Length')]))
      .min(2)
      .describe('Points [probability, tokens] of the inverse distribution, from probability 0 to 1'),
    interpolation: z
      .enum(['linear', 'logarithmic'])
      .optional()
      .describe('Between the points: straight (default), or straight in the logarithm'),
  }),
]);

const arrivalSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('constant'), ratePerSecond }),
  z.strictObject({ kind: z.literal('poisson'), ratePerSecond }),
  z.strictObject({
    kind: z.literal('gamma'),
    ratePerSecond,
    cv: z.number().min(0.05).max(20).describe('Standard deviation of the gaps over their mean: above 1 bursty, below 1 regular'),
  }),
  z.strictObject({
    kind: z.literal('on-off'),
    onRatePerSecond: positive('Arrivals a second while it is on'),
    offRatePerSecond: notNegative('Arrivals a second while it is off'),
    meanOnS: positive('Mean time on, s, exponential'),
    meanOffS: positive('Mean time off, s, exponential'),
  }),
  z.strictObject({
    kind: z.literal('diurnal'),
    meanRatePerSecond: positive('Arrivals a second, mean over a period'),
    amplitude: share('How far the rate swings, as a share of its mean'),
    periodS: positive('Length of a swing, s'),
    peakS: z.number().describe('When the rate is highest, s'),
  }),
]);

const prefixSchema = z.strictObject({
  groups: z.int().min(1).describe('Shared system prompts'),
  popularity: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('uniform') }),
    z.strictObject({
      kind: z.literal('zipf'),
      exponent: z.number().min(0).max(10).describe('Group n is asked for in proportion to n to the power of minus this'),
    }),
  ]),
  prefixTokens: lengthSchema,
});

const independentPrefixSchema = prefixSchema.extend({
  share: share('Share of the requests that begin with one; default all').optional(),
  part: z
    .enum(['added', 'included'])
    .optional()
    .describe('Whether it comes before the input tokens (the default) or is the beginning of them'),
});

const simpleSources = [
  z.strictObject({
    kind: z.literal('trace'),
    file: z.string().min(1).describe('Trace file, plain or .gz, beside the scenario; the command line has --trace'),
    format: z.enum(['mooncake', 'azure', 'burstgpt', 'dynamo', 'plain']).optional().describe('Default: told from the first line'),
    arrivals: z.enum(['spread', 'as-is']).default('spread').describe('Spread equal timestamps over the clock tick of the format'),
    badRows: z
      .enum(['stop', 'count'])
      .default('stop')
      .describe('A row that cannot be right: stop before the run, or leave it out and count it'),
    prefixBlockTokens: tokens('Block size for prefix groups of a plain CSV').default(16),
    hashTokens: tokens('Tokens that a hash of a Mooncake trace stands for').default(512),
    turnPrompts: z
      .enum(['whole', 'added'])
      .optional()
      .describe(
        'What rows of later turns of Mooncake sessions have: the whole prompt, or what they add to the prompt and the answer before; default whole where they list hashes, added where not',
      ),
    slice: z
      .strictObject({
        fromSeconds: notNegative('Time of the trace from which on').default(0),
        minInputTokens: tokens('Shortest prompt taken').default(1),
        maxInputTokens: tokens('Longest prompt taken').optional(),
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
    blockTokens: tokens('Tokens that a block hash of the workload stands for; default 16').optional(),
  }),
  z.strictObject({
    kind: z.literal('sessions'),
    sessionArrivals: arrivalSchema,
    turns: lengthSchema,
    firstTokens: lengthSchema,
    turnTokens: lengthSchema,
    outputTokens: lengthSchema,
    meanThinkS: notNegative(
      'Mean time between the end of an answer and the next turn, s, exponential; it plans arrivals, for which sessions.next: think does not wait',
    ),
    answerS: notNegative('Assumed time of an answer, s: fixed part').optional(),
    answerMsPerToken: notNegative('... and of each of its tokens, ms').optional(),
    maxInputTokens: tokens('A session ends rather than ask for a longer prompt'),
    prefix: prefixSchema.optional(),
    blockTokens: tokens('Tokens that a block hash of the workload stands for; default 16').optional(),
  }),
  z.strictObject({ kind: z.literal('mooncake-like'), arrivals: arrivalSchema.optional() }),
] as const;

const sourceSchema = z.discriminatedUnion('kind', [
  ...simpleSources,
  z
    .strictObject({
      kind: z.literal('mixture'),
      parts: z
        .array(
          z.strictObject({
            tenant: z.string().min(1).describe('Who sends the requests of this part; default as the source says').optional(),
            source: z.discriminatedUnion('kind', simpleSources),
          }),
        )
        .min(1)
        .describe('Sources whose requests come together by their arrivals; parts share no prefixes'),
    })
    .describe('Several sources at once, such as tenants with lengths and arrivals of their own'),
]);

const sloSchema = z.strictObject({
  ttftMs: positive('Time to the first token, ms, at most').optional(),
  tpotMs: positive('Mean gap between tokens, ms, at most').optional(),
  itlMs: positive('Longest gap between tokens, ms, at most').optional(),
  e2eMs: positive('Time to the last token, ms, at most').optional(),
});

const tenantSchema = z.strictObject({
  name: z.string().min(1).describe('Name in traces and results'),
  share: positive('Relative weight among requests that do not say whose they are').default(1),
  priority: z.number().optional().describe('Larger is more urgent'),
  slo: sloSchema.optional(),
});

const clientSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('open-loop') }).describe('Requests come at their time, whatever the state of the cluster'),
  z
    .strictObject({
      kind: z.literal('closed-loop'),
      style: z
        .enum(['workers', 'semaphore'])
        .default('workers')
        .describe('workers: loops that take the next request when theirs has ended; semaphore: a task a request, which waits for a permit'),
      inFlight: z.int().min(1).default(1).describe('Most requests at a time, where there are no phases'),
      phases: z
        .array(z.strictObject({ seconds: positive('Length of the phase'), inFlight: count('Requests at a time', 0) }))
        .min(1)
        .optional()
        .describe('Numbers in flight over time, each beginning with a burst of fresh requests; nothing is sent after the last'),
      backlog: z
        .boolean()
        .default(false)
        .describe('Semaphore: tasks always wait, arrival times are ignored, and a request comes when it has its permit'),
      moves: z
        .array(z.strictObject({ atSeconds: notNegative('When'), frontend: count('Number of the frontend, from 0', 0) }))
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
      meanThinkMs,
      think,
      taskLimit: z.int().min(0).default(1_000_000).describe('Semaphore: tasks that may wait'),
    })
    .describe('A fixed number of requests in flight'),
  z
    .strictObject({
      kind: z.literal('policy'),
      policy: z.string().describe('.ts or .js file beside the scenario, or package:name'),
      parameters: z.record(z.string(), z.json()).default({}).describe('Parameters of the policy'),
    })
    .describe('A client policy of your own decides when each request is sent'),
]);

const connectionsSchema = z.strictObject({
  connections: count('Requests that the client has open at most'),
  order: z
    .enum(['fifo', 'lifo', 'random', 'barge', 'aiohttp'])
    .default('fifo')
    .describe('Who gets a connection that is given back: of those who wait, or by the rule of a client library (barge, aiohttp)'),
  bargeShare: z.number().min(0).max(1).default(0).describe('barge: probability that whoever asks next is served before those who wait'),
  tickUs: z.number().min(0).default(0).describe('aiohttp: connections given back within this time of the first are of one tick'),
  queueLimit: count('Requests that may wait for a connection', 0).default(1_000_000),
});

const retrySchema = z.strictObject({
  timeoutMs: positive('Time of an attempt after which the client cancels it; default never').optional(),
  deadlineMs: positive('Time for all attempts together, pauses included; default no end').optional(),
  attempts: count('Attempts in all').max(255).default(1),
  backoffMs: notNegative('Pause before the second attempt').default(0),
  backoffFactor: z.number().min(1).max(100).default(1).describe('Each later pause is so many times longer'),
  maxBackoffMs: notNegative('Longest pause').default(60_000),
  jitter: z
    .enum(['none', 'equal', 'full'])
    .default('none')
    .describe('full: a uniform part of the pause; equal: half of it and a uniform part of the other half'),
});

export const workloadSchema = z.strictObject({
  source: sourceSchema,
  requests: z
    .int()
    .min(1)
    .max(100_000_000)
    .optional()
    .describe('Stop after so many requests, the first by arrival: sessions that are not through by then lose their later turns'),
  rateFactor: positive('Arrivals come this many times faster, and turns of a trace after delays as much shorter').default(1),
  client: clientSchema.default({ kind: 'open-loop' }),
  connections: connectionsSchema.optional().describe('Connection limit of the client'),
  sessions: z
    .strictObject({
      next: z
        .enum(['arrival', 'think'])
        .default('arrival')
        .describe('When a turn comes: at its own time (a timestamp, or a delay after the answer), or a think time after the answer'),
      meanThinkMs,
      think,
      afterFailure: z
        .enum(['continue', 'abandon'])
        .default('continue')
        .describe('What becomes of the later turns when one does not complete'),
    })
    .optional()
    .describe('Later turns of a session wait for the answer before; default only those to which a trace gives a delay'),
  retry: retrySchema.optional().describe('Timeout, cancel and retry of the client'),
  tenants: z.array(tenantSchema).default([]).describe('Who sends the requests; default one tenant'),
  slo: sloSchema.optional().describe('What a request must meet to count as good'),
});
