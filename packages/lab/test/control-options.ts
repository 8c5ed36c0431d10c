/** Settings that make the ground on which an option shows, then the option itself. */
export interface Case {
  readonly ground?: readonly string[];
  readonly set: string;
  /** By what it shows when it is meant to change no latency, count or share. */
  readonly shownBy?: 'name' | 'events' | 'recordFingerprint';
}

const controlled = [
  'router.frontends=2',
  'router.frontendParameters=[{tau: 0, omega: 1}, {tau: 0.9, omega: 0}]',
  'controller={policy: adaptive, periodSeconds: 0.1, parameters: {thresholds: [1], samplesInARow: 1, regimes: [{tau: 0, omega: 1}, {tau: 0.9, omega: 0}]}}',
];
const linear = '{kind: linear, prefillMs: 20, prefillMsPerToken: 0.05, decodeMs: 10, decodeMsPerSequence: 0.1}';
const many = 'workload.client={kind: closed-loop, style: semaphore, inFlight: 6';
const speculation = ['serving[1].speculation={draftTokens: 2, acceptance: 0.7}'];
const expertsApart = [
  'cluster.gpusPerServer=4',
  'cluster.racksPerPod=3',
  'model={name: Qwen3-30B-A3B, weightPrecision: fp8}',
  'serving[0]={count: 4, tensorParallel: 2, attention: data-parallel}',
];
const poaOver = (busy: readonly string[]): string[] => ['telemetry.poa={slopeSeconds: 0.01, everySeconds: 0.2}', ...busy];

/** Cases of timing, serving, frontends, controllers, clients and the price-of-anarchy actor, over grounds that others share. */
export function controlCases(busy: readonly string[], closed: readonly string[], csv: readonly string[]): Record<string, Case> {
  const poa = poaOver(busy);
  return {
    ...Object.fromEntries(
      [
        ['prefillMs', 'serving[0].timing.prefillMs=60'],
        ['prefillMsPerToken', 'serving[0].timing.prefillMsPerToken=0.5'],
        ['decodeMs', 'serving[1].timing.decodeMs=30'],
        ['decodeMsPerSequence', 'serving[1].timing.decodeMsPerSequence=3'],
      ].map(([key, set]) => [
        `serving.timing.${key}`,
        { ground: [`serving[0].timing=${linear}`, `serving[1].timing=${linear}`], set: set as string },
      ]),
    ),
    'serving.prompts': { ground: busy, set: 'serving[0].prompts=independent' },
    'serving.speculation.draftTokens': { ground: speculation, set: 'serving[1].speculation.draftTokens=5' },
    'serving.speculation.acceptance': { ground: speculation, set: 'serving[1].speculation.acceptance=0.2' },
    'serving.speculation.draftMs': { ground: speculation, set: 'serving[1].speculation.draftMs=3' },
    'serving.maxChunkTokens': { ground: busy, set: 'serving[0].maxChunkTokens=100' },
    'serving.redundantExperts': { ground: expertsApart, set: 'serving[0].redundantExperts=16' },
    'serving.twoBatchOverlap': { ground: expertsApart, set: 'serving[0].twoBatchOverlap=true' },
    servingRounds: { ground: ['cluster.racksPerPod=4'], set: 'servingRounds=2' },
    'workload.source.slice.fromSeconds': { ground: csv, set: 'workload.source.slice.fromSeconds=0.5' },
    'workload.source.slice.minInputTokens': { ground: csv, set: 'workload.source.slice.minInputTokens=500' },
    'workload.source.slice.maxInputTokens': { ground: csv, set: 'workload.source.slice.maxInputTokens=500' },
    'serving.holdsSlots': { ground: [...busy, 'serving[0].maxSequences=1'], set: 'serving[0].holdsSlots=true' },
    'serving.newBatchStallMs': { set: 'serving[1].newBatchStallMs=20' },
    'router.frontendParameters': { ground: [...busy, 'router.frontends=2'], set: controlled[1] as string },
    'controller.policy': { ground: controlled.slice(0, 2), set: controlled[2] as string },
    'controller.parameters': { ground: controlled, set: 'controller.parameters.thresholds=[1e9]' },
    'controller.periodSeconds': { ground: controlled, set: 'controller.periodSeconds=2' },
    'controller.windowSeconds': {
      ground: [...controlled, 'controller.parameters.thresholds=[60]', 'workload.requests=200'],
      set: 'controller.windowSeconds=0',
    },
    'controller.signal': {
      ground: [...controlled, 'workload.connections={connections: 2}', 'controller.parameters.thresholds=[500]', 'workload.requests=200'],
      set: 'controller.signal=client',
    },
    'controller.apply': { ground: controlled, set: 'controller.apply=set' },
    'workload.client.phases.seconds': {
      ground: [`workload.client={kind: closed-loop, phases: [{seconds: 0.5, inFlight: 6}, {seconds: 9, inFlight: 1}]}`],
      set: 'workload.client.phases[0].seconds=0.2',
    },
    'workload.client.phases.inFlight': {
      ground: [`workload.client={kind: closed-loop, phases: [{seconds: 0.5, inFlight: 6}, {seconds: 9, inFlight: 1}]}`],
      set: 'workload.client.phases[0].inFlight=3',
    },
    'workload.client.backlog': { ground: [`${many}}`], set: 'workload.client.backlog=true' },
    'workload.client.moves.atSeconds': {
      ground: ['router.frontends=2', `${many}, moves: [{atSeconds: 0.2, frontend: 1}]}`],
      set: 'workload.client.moves[0].atSeconds=0.9',
    },
    'workload.client.moves.frontend': {
      ground: ['router.frontends=2', `${many}, moves: [{atSeconds: 0.2, frontend: 1}]}`],
      set: 'workload.client.moves[0].frontend=0',
    },
    'workload.client.answerJitterUs': { ground: [...busy, `${many}}`], set: 'workload.client.answerJitterUs=20000' },
    'workload.client.permitsLostByMove': {
      ground: [...busy, 'router.frontends=2', `${many}, moves: [{atSeconds: 0.1, frontend: 1}]}`],
      set: 'workload.client.permitsLostByMove=4',
    },
    'workload.connections.bargeShare': {
      ground: [...closed, 'workload.connections={connections: 2, order: barge}'],
      set: 'workload.connections.bargeShare=0.9',
    },
    'workload.connections.tickUs': {
      ground: [...closed, 'workload.client.inFlight=12', 'workload.connections={connections: 2, order: aiohttp}'],
      set: 'workload.connections.tickUs=300000',
    },
    // The value over the window is a row of the poa table; the summary has that of each snapshot.
    'telemetry.poa.windowSeconds': { ground: poa, set: 'telemetry.poa.windowSeconds=0.3', shownBy: 'recordFingerprint' },
    ...Object.fromEntries(
      (
        [
          ['everySeconds', '0.1'],

          ['slopeSeconds', '0.02'],
          ['interceptSeconds', '0.5'],
          ['definition', 'same-units'],
          ['rows', 'in-service'],
          ['slotsPerWorker', 'unlimited'],
          ['loadNotion', 'excluding-self'],
          ['aggregate', 'mean'],
          ['minimumInFlight', '1000'],
        ] as const
      ).map(([key, value]) => [`telemetry.poa.${key}`, { ground: poa, set: `telemetry.poa.${key}=${value}` }]),
    ),
    ...Object.fromEntries(
      (
        [
          ['poleScale', '5'],
          ['saturationLoad', '9'],
          ['poleExponent', '2'],
          ['pastPole', 'exclude'],
        ] as const
      ).map(([key, value]) => [
        `telemetry.poa.${key}`,
        {
          ground: ['telemetry.poa={slopeSeconds: 0.01, everySeconds: 0.2, poleScale: 1, saturationLoad: 6}', ...busy],
          set: `telemetry.poa.${key}=${value}`,
        },
      ]),
    ),
  };
}
