import { LINK_CLASSES } from '@braess/fabric';
import { HOST_DRAM_BANDWIDTH, NVME_BANDWIDTH } from '@braess/kvbm';
import type { Precision } from '@braess/serving';
import { z } from 'zod';
import { count, notNegative, positive, share } from './described.js';
import { workloadSchema } from './workload-schema.js';

/** Of a link or a tier: at least 1 MB/s, as less is a number of GB/s or Gb/s that was meant to be one of bytes/s. */
const bandwidth = (description: string) => z.number().min(1e6).finite().describe(description);
/** At most a second: no cable is longer. */
const latency = (description: string) => z.int().min(0).max(1e9).describe(description);

const roles = ['aggregated', 'prefill', 'decode'] as const;
const precisions = ['bf16', 'fp8', 'int8', 'fp4'] as const satisfies readonly Precision[];

const linkSpeeds = z
  .strictObject({
    nvlink: bandwidth('GPU to NVLink switch, bytes/s each way').optional(),
    pcie: bandwidth('GPU to NIC, bytes/s').optional(),
    nic: bandwidth('NIC to leaf switch, bytes/s').optional(),
    leafUplink: bandwidth('leaf to spine, bytes/s a link').optional(),
    coreUplink: bandwidth('spine to core, bytes/s a link').optional(),
    gateway: bandwidth('core to gateway, bytes/s').optional(),
    interZone: bandwidth('gateway to gateway of another zone, bytes/s').optional(),
    storage: bandwidth('storage node to spine, bytes/s').optional(),
  })
  .describe('Link speeds in bytes/s each way; what is not given follows from the GPU');

const linkLatencies = z
  .strictObject({
    nvlink: latency('ns').optional(),
    pcie: latency('ns').optional(),
    nic: latency('ns').optional(),
    leafUplink: latency('ns').optional(),
    coreUplink: latency('ns').optional(),
    gateway: latency('ns').optional(),
    interZone: latency('ns, one way').optional(),
    storage: latency('ns').optional(),
  })
  .describe('One-way latency of each kind of link, ns');

const topologySchema = z.strictObject({
  kind: z.enum(['fat-tree', 'rail-optimised', 'multi-zone']).default('fat-tree').describe('Shape of the network'),
  nicsPerServer: count('NICs of a server; default one a GPU').optional(),
  spinesPerPod: count('Spine switches of a pod').default(4),
  uplinksPerLeaf: count('Uplinks of one leaf; default as many as it has NICs below (no oversubscription)').optional(),
  cores: count('Core switches, where there is more than one pod').default(4),
  uplinksPerPod: count('Uplinks of one pod to the core; default as many as it has NICs').optional(),
  zones: count('Zones of a multi-zone topology', 2).default(2),
  gatewaysPerZone: count('Gateways of each zone').default(1),
  bytesPerSecond: linkSpeeds.prefault({}),
  latencyNs: linkLatencies.prefault({}),
  oversubscription: z
    .strictObject({
      leaf: z.number().min(1).default(1).describe('Ratio at the leaf uplinks, 4 means 4:1'),
      core: z.number().min(1).default(1).describe('Ratio at the core uplinks'),
      by: z
        .enum(['slower-links', 'fewer-links'])
        .default('slower-links')
        .describe('What a ratio takes from the uplinks: their speed, or their number'),
    })
    .prefault({}),
});

const fabricSchema = z.strictObject({
  fidelity: z.enum(['flow', 'chunk']).default('flow').describe('flow: max-min fair rates; chunk: store and forward through port queues'),
  chunkBytes: count('Bytes that move as one at chunk fidelity; at least 256, the least MTU of InfiniBand', 256).default(65_536),
  shards: z
    .enum(['aggregate', 'per-gpu'])
    .default('aggregate')
    .describe(
      'How the KV of a tensor-parallel group moves: as one flow over the summed links of its GPUs, or one flow a GPU over its own NIC',
    ),
  overlap: z
    .enum(['none', 'layers'])
    .default('none')
    .describe(
      'layers: the decode engine is chosen when the first layer of a prompt is computed, and fetches KV from then on; the last layer when the prompt is computed',
    ),
  delayUs: positive('Engine to fabric, one way, us: posting a transfer').default(5),
  noticeUs: positive('Least time until the end of a transfer is noticed at the engine, us (a polling thread; assumed)').default(50),
  avoidBelowShare: share('Where hashing has a choice, links below this share of their capacity are passed over').default(0),
  unreachableAfterSeconds: positive('How long a transfer without any way stands still before it fails').default(1),
  background: z
    .array(
      z.strictObject({
        link: z.enum(LINK_CLASSES).describe('Links that carry it'),
        share: share('Share of their capacity it takes'),
      }),
    )
    .default([])
    .describe('Constant background traffic by kind of link'),
  onOff: z
    .array(
      z.strictObject({
        from: z.string().describe('GPU, e.g. pod0/rack0/node0/gpu0'),
        to: z.string().describe('GPU'),
        bytesPerSecond: positive('Most it sends while it is on'),
        meanOnMs: positive('Mean time on, exponential'),
        meanOffMs: positive('Mean time off, exponential'),
      }),
    )
    .default([])
    .describe('Background flows that come and go'),
});

const clusterSchema = z.strictObject({
  gpu: z.string().default('H100').describe('Name of a GPU in the catalogue'),
  pods: count('Pods (of each zone)').default(1),
  racksPerPod: count('Racks of a pod').default(1),
  serversPerRack: count('Servers of a rack').default(1),
  gpusPerServer: count('GPUs of a server').default(8),
  topology: topologySchema.prefault({}),
  fabric: fabricSchema.prefault({}),
});

const modelSchema = z.strictObject({
  name: z.string().default('Llama-3.1-8B').describe('Name of a model in the catalogue'),
  weightPrecision: z.enum(precisions).default('bf16').describe('Format of the weights: their memory, their reading, the FLOPs there are'),
  kvPrecision: z.enum(precisions).default('bf16').describe('Format of the KV cache: blocks that fit, bytes that move'),
});

const timingSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('roofline'),
    profile: z.string().optional().describe('Engine profile of the catalogue; default the one fitted to the GPU and model'),
  }),
  z.strictObject({ kind: z.literal('polynomial') }),
  z
    .strictObject({
      kind: z.literal('linear'),
      prefillMs: notNegative('Of a pass with prompt tokens, ms'),
      prefillMsPerToken: notNegative('Of each prompt token on top, ms'),
      decodeMs: notNegative('Of a decode pass, ms'),
      decodeMsPerSequence: notNegative('Of each sequence on top, ms'),
    })
    .describe('Straight lines in the prompt tokens and in the sequences of a pass'),
  z.strictObject({
    kind: z.literal('dynamo-profile'),
    folder: z.string().min(1).describe("Result folder of Dynamo's profiler, beside the scenario"),
  }),
]);

/** A policy's own schema checks its parameters. */
const parameters = z.record(z.string(), z.json()).describe('Parameters of the policy: braess policy list names them');

const evictionSchema = {
  eviction: z
    .string()
    .default('lru')
    .describe('Which cached blocks go first: built-in name, .ts or .js file beside the scenario, or package:name'),
  evictionParameters: parameters.default({}),
};

const engineSchema = {
  tensorParallel: count('GPUs of one engine: a divisor of those of a server, or of several whole servers').default(1),
  attention: z
    .enum(['tensor-parallel', 'data-parallel'])
    .default('tensor-parallel')
    .describe(
      'data-parallel: each GPU keeps the KV of its own sequences and all weights but the experts, which are spread over the GPUs (mixtures of experts)',
    ),
  twoBatchOverlap: z
    .boolean()
    .default(false)
    .describe('Passes in two halves, the exchanges between experts of one beside the work of the other; with data-parallel attention'),
  redundantExperts: count(
    'Further copies of experts in each layer, with data-parallel attention: experts and copies are spread over the GPUs',
    0,
  ).default(0),
  blockTokens: count('Tokens of a KV block').default(16),
  maxSequences: count('Most sequences in a pass').default(256),
  maxBatchedTokens: count('Token budget of a pass').default(8192),
  speculation: z
    .strictObject({
      draftTokens: z.int().min(1).max(32).describe('Tokens drafted for each sequence and pass'),
      acceptance: share('Probability that a drafted token is taken, given that those before it were'),
      draftMs: notNegative('Time of drafting one token for the whole batch').default(0),
    })
    .optional()
    .describe('Several tokens a decode pass: drafted (multi-token prediction, EAGLE, a small model), verified together'),
  maxChunkTokens: count(
    'Most tokens of one prompt in a pass; default all of maxBatchedTokens, or with data-parallel attention the share of one GPU',
  ).optional(),
  holdsSlots: z.boolean().default(false).describe('Prefilled requests count against maxSequences until their KV has been pulled'),
  newBatchStallMs: notNegative('Extra time of the first pass at each batch size (graph capture, compilation)').default(0),
  maxModelTokens: count('Longest prompt plus output; default what the model was trained for').optional(),
  maxWaiting: count('Requests that may wait in an engine').default(65_536),
  schedulingPolicy: z
    .enum(['fcfs', 'priority'])
    .default('fcfs')
    .describe('Who waits and who is preempted: first come first served and last in first out, or by the priority of the tenant'),
  kvBlocks: count('KV blocks of one engine; default what fits').optional(),
  memoryUtilisation: z.number().gt(0).max(1).default(0.9).describe('Share of GPU memory an engine may use'),
  prefixCaching: z.boolean().default(true).describe('Keep KV blocks of ended requests for equal prefixes'),
  cacheBlocks: count('Most KV blocks of ended requests that an engine keeps; default as many as its memory has', 0).optional(),
  ...evictionSchema,
  timing: timingSchema.default({ kind: 'roofline' }),
  prompts: z
    .enum(['batched', 'independent'])
    .default('batched')
    .describe(
      'independent: every prompt takes the time it would take alone, whatever else is computed (prefill engines; a cluster without prefill queues)',
    ),
  passes: z.enum(['lazy', 'stepwise']).default('lazy').describe('stepwise steps every pass singly: slower, same results'),
};

const groupSchema = z.strictObject({
  name: z.string().optional().describe('Name of the group in messages'),
  count: count('Engines of the group'),
  role: z.enum(roles).default('aggregated').describe('What its engines do: prompts, answers after a KV transfer, or both'),
  placement: z
    .enum(['packed', 'spread'])
    .default('packed')
    .describe('packed: fills servers, racks and pods in order; spread: an engine to each rack in turn, over zones and pods first'),
  ...engineSchema,
});

const tierSchema = {
  gigabytes: positive('Capacity, 10^9 bytes: of each server, or of the storage as a whole'),
  ...evictionSchema,
  mode: z
    .enum(['write-through', 'on-eviction'])
    .default('write-through')
    .describe('When blocks of the tier above are copied here: as they are stored there, or as they are evicted there'),
  minimumFrequency: count('Offers before a block is stored').default(1),
};

const deviceSchema = {
  ...tierSchema,
  latencyUs: notNegative('Fixed time before the bytes of a transfer move').default(100),
  pollMs: notNegative('Period at which the scheduler notices ended transfers; 0 at once').default(0),
};

const tiersSchema = z.strictObject({
  g2: z
    .strictObject({
      ...deviceSchema,
      bytesPerSecond: bandwidth('What a host can move in all, each way').default(HOST_DRAM_BANDWIDTH.deviceBytesPerSecond),
      workerBytesPerSecond: bandwidth('What the transfers of one engine can take together').default(
        HOST_DRAM_BANDWIDTH.workerBytesPerSecond,
      ),
    })
    .optional()
    .describe('Host DRAM of each server'),
  g3: z
    .strictObject({
      ...deviceSchema,
      minimumFrequency: count('Offers before a block is stored').default(2),
      bytesPerSecond: bandwidth('What the drives of a server can move, both ways together').default(NVME_BANDWIDTH.deviceBytesPerSecond),
    })
    .optional()
    .describe('NVMe of each server'),
  g4: z
    .strictObject({
      ...tierSchema,
      latencyUs: notNegative('Time of the storage service before the bytes move').default(500),
    })
    .optional()
    .describe('Network storage, reached through the fabric'),
});

const policySchema = z.strictObject({
  policy: z.string().describe('Built-in name, .ts or .js file beside the scenario, or package:name'),
  parameters: parameters.default({}),
});

const routerSchema = z.strictObject({
  policy: z.string().default('least-loaded').describe('Built-in name, .ts or .js file beside the scenario, or package:name'),
  parameters: parameters.default({}),
  decode: policySchema
    .extend({
      reserve: share(
        'KV memory a decode engine keeps free with a request there, else it waits; default what the policy asks for',
      ).optional(),
      utilisationCap: z.number().gt(0).optional().describe('Share of maxSequences up to which an engine is a candidate'),
      nearPriority: z
        .number()
        .optional()
        .describe('Requests of at least this priority go to the nearest tier, all others elsewhere while there is another'),
      longestWaitMs: positive('Time after the prefill from which utilisationCap and nearPriority no longer hold for a request').optional(),
      longTokens: count('Prompts of at least so many tokens wait in a queue of their own').optional(),
      retryMs: positive('How often waiting requests are looked at again where time alone may let them go').default(10),
    })
    .optional()
    .describe('Policy of the decode stage; default the same'),
  admission: policySchema.optional().describe('Decides whether a request may enter'),
  oracle: policySchema
    .extend({
      health: z
        .strictObject({
          timeoutMs: positive('Age of what it last said after which it counts as ill; default never').optional(),
          worstRatio: z
            .number()
            .gt(1)
            .optional()
            .describe('Mean ratio of transfer times to predicted ones, either way, above which it is ill'),
          errorWeight: z.number().gt(0).max(1).default(0.1).describe('Weight of the newest transfer in that mean'),
          fallback: z
            .enum(['least-load', 'static-tiers'])
            .default('least-load')
            .describe(
              'Who decides while it is ill: the least loaded engine is taken, or the policy goes on with distance and nominal bandwidth alone',
            ),
        })
        .prefault({})
        .describe('When decisions do without it'),
    })
    .optional()
    .describe('Predicts KV transfers for router policies that read the network'),
  frontends: count('Frontends, each with a router of its own').max(4096).default(1),
  frontendParameters: z
    .array(parameters)
    .default([])
    .describe('Router parameters of each frontend, in order, over those above; a decode policy of its own keeps its own'),
  frontendBy: z.enum(['turn', 'hash']).default('turn').describe('How clients choose a frontend: in turn, or by hash of the session'),
  replicaSyncMs: notNegative('How often frontends tell each other their load; 0: never').default(0),
  linkReportMs: z
    .number()
    .min(0)
    .optional()
    .describe('Period of link reports to the oracle; 0: at each change; default what the oracle asks for, else 1000'),
  loadReportMs: notNegative('Period of load reports of the engines; 0 for none').default(0),
  kvEventMs: notNegative('How long KV events are gathered; 0 sends them as they happen').default(0),
  queue: z
    .strictObject({
      order: z
        .enum(['fcfs', 'wspt', 'fair'])
        .default('fcfs')
        .describe('wspt: least tokens to compute over (1 + priority) first; fair: equal prompt tokens for every tenant that waits'),
      limit: count('Requests that may wait when all engines are busy', 0).default(65_536),
      maxEngineRequests: count('Requests after which an engine counts as busy; default never').optional(),
      maxEnginePrefillTokens: count('Prompt tokens to compute after which an engine counts as busy; default never').optional(),
    })
    .prefault({}),
  maxAttempts: count('Engines a request is sent to at most, apart from those that changed their role').max(255).default(3),
  onEngineDeath: z.enum(['retry', 'fail']).default('retry').describe('What becomes of the requests of an engine that dies'),
  maxInFlight: count('Requests in flight at most').default(4_194_304),
});

/** Slower still, what is under way would not end within simulated time. */
const speedFactor = z
  .number()
  .min(0)
  .max(1)
  .refine((factor) => factor === 0 || factor >= 1e-6, 'must be 0 (dead, out) or at least 0.000001');

const faultSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('gpu-speed'),
    atSeconds: notNegative('When it takes hold, simulated time'),
    gpu: z.string().describe('Place, e.g. pod0/rack0/node0/gpu0'),
    factor: speedFactor.describe('1 healthy, 0 dead'),
  }),
  z.strictObject({
    kind: z.literal('link-share'),
    atSeconds: notNegative('When it takes hold, simulated time'),
    from: z.string().describe('Node, e.g. pod0/rack0/leaf0'),
    to: z.string().describe('Node at the other end'),
    share: share('What is left of the cable: 0 cut, 1 whole'),
  }),
  z.strictObject({
    kind: z.literal('tier-speed'),
    atSeconds: notNegative('When it takes hold, simulated time'),
    tier: z.string().describe('Place of a KV tier, e.g. pod0/rack0/node0/g2, or storage/g4'),
    factor: speedFactor.describe('Share of its bandwidth that is left; 0: it is out, and what DRAM or NVMe held is lost'),
  }),
  z.strictObject({
    kind: z.literal('telemetry-loss'),
    atSeconds: notNegative('When it takes hold, simulated time'),
    actor: z.string().describe('Place of an engine or frontend, e.g. pod0/rack0/node0/engine0 or control/frontend0'),
    lost: z.boolean().describe('Whether its reports (or those to it) are lost from then on'),
  }),
]);

const poaSchema = z
  .strictObject({
    everySeconds: positive('Time between two snapshots of what is in flight').default(1),
    windowSeconds: positive('Requests that ended this long ago at most count for the live value').default(10),
    slopeSeconds: positive('Latency model of a worker with n requests, a n + b + d / (n_sat - n)^beta: a'),
    interceptSeconds: notNegative('b').default(0),
    poleScale: notNegative('d').default(0),
    saturationLoad: positive('n_sat').default(1e9),
    poleExponent: positive('beta').default(1),
    definition: z.enum(['published', 'same-units', 'load-dependent']).default('published').describe('What is set in proportion to what'),
    rows: z
      .enum(['in-flight', 'in-service'])
      .default('in-flight')
      .describe('Which requests count: all in flight, or those that a worker serves'),
    slotsPerWorker: z
      .union([count('Requests one worker may be assigned'), z.literal('unlimited')])
      .default(1)
      .describe('Requests one worker may be assigned'),
    loadNotion: z
      .enum(['in-service', 'excluding-self'])
      .default('in-service')
      .describe('Load that the model is fed: requests in service, with or without the own one'),
    aggregate: z.enum(['sum', 'mean']).default('sum').describe('Sums, or means over requests and over pairs'),
    pastPole: z
      .enum(['infinite', 'clamp', 'exclude', 'error'])
      .default('clamp')
      .describe('A worker at or past its pole: costs without end, as much as just before it, is left out, or ends the run'),
    minimumInFlight: count('Fewer in flight: undefined').default(5),
    alarmFactor: positive('The alarm: live value this many times its calm level').default(1.25),
    alarmSamples: count('... so many snapshots in a row').default(2),
  })
  .refine(({ everySeconds, windowSeconds }) => windowSeconds <= 1e6 * everySeconds, {
    path: ['everySeconds'],
    error: ({ input }) => {
      const { everySeconds, windowSeconds } = input as { everySeconds: number; windowSeconds: number };
      return `${everySeconds} s must be at least a millionth of windowSeconds, ${windowSeconds} s: every value of the window is kept`;
    },
  });

const telemetrySchema = z.strictObject({
  poa: poaSchema.optional().describe('Price-of-anarchy actor: follows assignments and outcomes and computes PoA-hat'),
  seriesSeconds: z
    .number()
    .min(0)
    .refine((seconds) => seconds === 0 || seconds >= 1e-3, 'must be 0 (none) or at least 0.001')
    .optional()
    .describe('Period of the time series; 0 for none; default a 300th of the time of arrivals, at least 1 s'),
  decisionsEvery: count('Record the routing decisions of every such request; 0 for none', 0).default(100),
  candidates: count('Candidates recorded of one decision').default(8),
  firstTokenAt: z
    .enum(['decode', 'prefill'])
    .default('decode')
    .describe('Where TTFT ends: first token of the decode engine, or end of prefill'),
  streamTokens: z
    .boolean()
    .default(false)
    .describe('Tell frontends of every output token as it leaves its engine: a message a pass for up to six of their requests'),
});

const delaysSchema = z.strictObject({
  clientUs: positive('Client to frontend, one way, us').default(100),
  controlUs: positive('Frontend to engine, one way, us').default(500),
  releaseUs: positive('Engine to engine, one way, us: the notice that held KV may go').default(500),
});

const plannerSchema = z.strictObject({
  policy: z.string().default('static').describe('Built-in name, .ts or .js file beside the scenario, or package:name'),
  parameters: parameters.default({}),
  switchSeconds: positive('Time a change of role takes once the engine has drained').default(5),
  startSeconds: positive('Time an engine takes to start, also after its last dead GPU is back').default(60),
});

const controllerSchema = z.strictObject({
  policy: z.string().describe('Built-in name, .ts or .js file beside the scenario, or package:name'),
  parameters: parameters.default({}),
  periodSeconds: positive('Time between two scrapes').default(5),
  windowSeconds: z
    .number()
    .min(0)
    .optional()
    .describe('Latencies count for so long; default one period, 0: since the beginning of the run'),
  signal: z
    .enum(['server', 'client'])
    .default('server')
    .describe(
      'Whose TTFT: from the arrival at the frontend, or from the moment the client wants to send, the wait for a connection included',
    ),
  apply: z
    .enum(['set', 'move'])
    .optional()
    .describe(
      'set: give all frontends the new parameters; move: move the clients to the frontend that has them. Default move with frontendParameters',
    ),
});

const executionSchema = z
  .strictObject({
    promises: z
      .boolean()
      .default(false)
      .describe(
        'Engines and clients promise silence, which widens the windows of several shards where little happens at a time; at many events a window it costs some per cent',
      ),
  })
  .describe('How the run is carried out; never changes its result');

/** Everything a scenario can say. */
export const scenarioSchema = z.strictObject({
  name: z.string().min(1).default('scenario').describe('Name in reports, and of run folders'),
  seed: z
    .union([z.int().min(0), z.string()])
    .default(1)
    .describe('Seed of every random stream'),
  untilSeconds: positive('End of the run in simulated time; default when all is done').optional(),
  warmupSeconds: notNegative('Requests that arrive before are left out of latencies and rates').default(0),
  catalogue: z
    .array(z.string())
    .default([])
    .describe(
      'Own catalogue files, beside the scenario: JSON with gpus, models, profiles, or the config.json of a checkpoint (a model named after its folder)',
    ),
  cluster: clusterSchema.prefault({}),
  model: modelSchema.prefault({}),
  serving: z.array(groupSchema).min(1).describe('Groups of equal engines'),
  servingRounds: count(
    'All groups are placed so many times over: where they are packed, with the same mix in every part of the cluster',
  ).default(1),
  kvTiers: tiersSchema.prefault({}),
  router: routerSchema.prefault({}),
  planner: plannerSchema.prefault({}),
  controller: controllerSchema.optional().describe('Watches latencies and changes router parameters'),
  workload: workloadSchema,
  actors: z.array(policySchema).default([]).describe('Actors of your own, each in a cell of its own beside the frontends'),
  faults: z.array(faultSchema).default([]).describe('What breaks when, and is mended'),
  telemetry: telemetrySchema.prefault({}),
  delays: delaysSchema.prefault({}),
  execution: executionSchema.prefault({}),
});

/** A scenario with every default filled in; plain data. */
export type Scenario = z.output<typeof scenarioSchema>;
/** A group of equal engines, with every default filled in. */
export type ServingGroup = Scenario['serving'][number];
