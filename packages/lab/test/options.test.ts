import { readFileSync } from 'node:fs';
import { parseScenario, planCluster, scenarioJsonSchema } from '@braess/cluster';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { type Case, controlCases } from './control-options.js';
import { disaggregated, essence, runText, testFile } from './small-runs.js';

const twoPods = ['cluster.pods=2', 'cluster.racksPerPod=1', 'cluster.topology.kind=fat-tree'];
const zones = ['cluster.topology.kind=multi-zone', 'cluster.racksPerPod=1'];
const busy = ['workload.rateFactor=20'];
const tiny = ['serving[0].kvBlocks=300'];
/** Many prompts, some of them often, and room for few: which one goes first matters. */
const reuse = [
  'serving[0].kvBlocks=150',
  'workload.requests=300',
  'workload.source.prefix={groups: 12, popularity: {kind: zipf, exponent: 1.2}, prefixTokens: {kind: uniform, minTokens: 300, maxTokens: 1200}}',
];
const g2Reuse = [...reuse, 'kvTiers.g2={gigabytes: 0.45}'];
const g3Reuse = [...reuse, 'kvTiers.g3={gigabytes: 0.45, minimumFrequency: 1}'];
const g4Reuse = [...reuse, 'kvTiers.g4={gigabytes: 0.45}'];
const g4 = [...tiny, 'kvTiers.g4={gigabytes: 1}'];
const frontends = ['router.frontends=2'];
const limited = [...busy, 'router.queue.maxEngineRequests=2'];
const closed = ['workload.client={kind: closed-loop, inFlight: 4}'];
const semaphore = [...busy, 'workload.client={kind: closed-loop, style: semaphore, inFlight: 2}'];
const connections = [...busy, 'workload.connections={connections: 2}'];
const retry = [...busy, 'workload.retry={timeoutMs: 150, attempts: 3, backoffMs: 20}'];
const sessions = [
  'workload.source={kind: sessions, sessionArrivals: {kind: poisson, ratePerSecond: 10}, turns: {kind: constant, tokens: 4}, firstTokens: {kind: constant, tokens: 500}, turnTokens: {kind: constant, tokens: 80}, outputTokens: {kind: constant, tokens: 30}, meanThinkS: 0.2, maxInputTokens: 4000}',
];
const waiting = [...sessions, 'workload.sessions={}'];
const independent = 'workload.source.';
const tenants = ['workload.tenants=[{name: a, share: 1}, {name: b, share: 1}]'];
const trace = testFile('trace.csv', readTraceText());
const csv = [`workload.source={kind: trace, file: ${trace}}`];
const gpuFile = ownGpu();
const profile = profileFolder();
const crash = 'faults=[{kind: gpu-speed, atSeconds: 0.6, gpu: pod0/rack0/node0/gpu0, factor: 0}]';

const cases: Record<string, Case> = {
  ...controlCases(busy, closed, csv),
  name: { set: 'name=other', shownBy: 'name' },
  seed: { set: 'seed=2' },
  untilSeconds: { set: 'untilSeconds=1' },
  warmupSeconds: { set: 'warmupSeconds=1' },
  catalogue: { ground: [], set: `catalogue=[${gpuFile}]` },
  'cluster.gpu': { set: 'cluster.gpu=H200' },
  'cluster.pods': { ground: ['cluster.racksPerPod=1'], set: 'cluster.pods=2' },
  'cluster.racksPerPod': { ground: [...twoPods, 'cluster.topology.latencyNs.coreUplink=90000'], set: 'cluster.racksPerPod=2' },
  'cluster.serversPerRack': { set: 'cluster.serversPerRack=2' },
  'cluster.gpusPerServer': { set: 'cluster.gpusPerServer=4' },
  'cluster.topology.kind': { set: 'cluster.topology.kind=rail-optimised' },
  'cluster.topology.nicsPerServer': {
    ground: [...busy, 'cluster.topology.bytesPerSecond.nic=2.0e+9'],
    set: 'cluster.topology.nicsPerServer=1',
  },
  'cluster.topology.spinesPerPod': {
    set: 'cluster.topology={spinesPerPod: 1, bytesPerSecond: {leafUplink: 2.0e+9}}',
    ground: ['cluster.topology={bytesPerSecond: {leafUplink: 2.0e+9}}'],
  },
  'cluster.topology.uplinksPerLeaf': {
    ground: ['cluster.topology.bytesPerSecond.leafUplink=2.0e+9'],
    set: 'cluster.topology.uplinksPerLeaf=1',
  },
  'cluster.topology.cores': {
    ground: [...twoPods, ...busy, 'cluster.topology.bytesPerSecond.coreUplink=1.0e+9', 'cluster.topology.uplinksPerPod=4'],
    set: 'cluster.topology.cores=1',
  },
  'cluster.topology.uplinksPerPod': {
    ground: [
      ...twoPods,
      ...busy,
      'cluster.topology.bytesPerSecond.coreUplink=1.0e+9',
      'cluster.topology.uplinksPerPod=4',
      'cluster.topology.cores=4',
    ],
    set: 'cluster.topology.uplinksPerPod=1',
  },
  'cluster.topology.zones': { ground: zones, set: 'cluster.topology.zones=1' },
  'cluster.topology.gatewaysPerZone': {
    ground: [...zones, ...busy, 'cluster.topology.bytesPerSecond.interZone=1.0e+9'],
    set: 'cluster.topology.gatewaysPerZone=2',
  },
  ...Object.fromEntries(
    (['nic', 'pcie', 'leafUplink'] as const).map((link) => [
      `cluster.topology.bytesPerSecond.${link}`,
      { set: `cluster.topology.bytesPerSecond.${link}=1.0e+9` },
    ]),
  ),
  'cluster.topology.bytesPerSecond.nvlink': { ground: ['cluster.gpusPerServer=4'], set: 'cluster.topology.bytesPerSecond.nvlink=1.0e+9' },
  'cluster.topology.bytesPerSecond.coreUplink': { ground: twoPods, set: 'cluster.topology.bytesPerSecond.coreUplink=1.0e+9' },
  'cluster.topology.bytesPerSecond.gateway': { ground: zones, set: 'cluster.topology.bytesPerSecond.gateway=1.0e+9' },
  'cluster.topology.bytesPerSecond.interZone': { ground: zones, set: 'cluster.topology.bytesPerSecond.interZone=1.0e+9' },
  'cluster.topology.bytesPerSecond.storage': { ground: g4, set: 'cluster.topology.bytesPerSecond.storage=1.0e+8' },
  ...Object.fromEntries(
    (['nic', 'pcie', 'leafUplink'] as const).map((link) => [
      `cluster.topology.latencyNs.${link}`,
      { set: `cluster.topology.latencyNs.${link}=90000` },
    ]),
  ),
  'cluster.topology.latencyNs.nvlink': { ground: ['cluster.gpusPerServer=4'], set: 'cluster.topology.latencyNs.nvlink=90000' },
  'cluster.topology.latencyNs.coreUplink': { ground: twoPods, set: 'cluster.topology.latencyNs.coreUplink=90000' },
  'cluster.topology.latencyNs.gateway': { ground: zones, set: 'cluster.topology.latencyNs.gateway=90000' },
  'cluster.topology.latencyNs.interZone': { ground: zones, set: 'cluster.topology.latencyNs.interZone=9000000' },
  'cluster.topology.latencyNs.storage': { ground: g4Reuse, set: 'cluster.topology.latencyNs.storage=900000' },
  'cluster.topology.oversubscription.leaf': {
    ground: ['cluster.topology.bytesPerSecond.leafUplink=4.0e+9'],
    set: 'cluster.topology.oversubscription.leaf=4',
  },
  'cluster.topology.oversubscription.core': {
    ground: [...twoPods, 'cluster.topology.bytesPerSecond.coreUplink=4.0e+9'],
    set: 'cluster.topology.oversubscription.core=4',
  },
  'cluster.topology.oversubscription.by': {
    ground: ['cluster.topology={oversubscription: {leaf: 2}, bytesPerSecond: {leafUplink: 2.0e+9}}'],
    set: 'cluster.topology.oversubscription.by=fewer-links',
  },
  'cluster.fabric.fidelity': { ground: ['workload.requests=20'], set: 'cluster.fabric={fidelity: chunk, chunkBytes: 1000000}' },
  'cluster.fabric.chunkBytes': {
    ground: ['workload.requests=20', 'cluster.fabric={fidelity: chunk, chunkBytes: 1000000}'],
    set: 'cluster.fabric.chunkBytes=2000000',
  },
  'cluster.fabric.overlap': { set: 'cluster.fabric.overlap=layers' },
  'cluster.fabric.noticeUs': { set: 'cluster.fabric.noticeUs=500' },
  'cluster.fabric.delayUs': { set: 'cluster.fabric.delayUs=50' },
  'cluster.fabric.avoidBelowShare': {
    ground: [...busy, 'faults=[{kind: link-share, atSeconds: 0, from: pod0/rack0/leaf0, to: pod0/spine0, share: 0.01}]'],
    set: 'cluster.fabric.avoidBelowShare=0.5',
  },
  'cluster.fabric.unreachableAfterSeconds': {
    ground: ['faults=[{kind: link-share, atSeconds: 0.5, from: pod0/rack0/node0/nic0, to: pod0/rack0/leaf0, share: 0}]'],
    set: 'cluster.fabric.unreachableAfterSeconds=0.2',
  },
  'cluster.fabric.shards': {
    ground: [
      ...busy,
      'serving=[{count: 1, role: prefill, tensorParallel: 2}, {count: 1, role: decode, tensorParallel: 2}]',
      'cluster.topology.spinesPerPod=2',
    ],
    set: 'cluster.fabric.shards=per-gpu',
  },
  'cluster.fabric.onOff': {
    ground: busy,
    set: 'cluster.fabric.onOff=[{from: pod0/rack0/node0/gpu1, to: pod0/rack1/node0/gpu0, bytesPerSecond: 4.0e+10, meanOnMs: 20, meanOffMs: 20}]',
  },
  'cluster.fabric.background': { set: 'cluster.fabric.background=[{link: nic, share: 0.8}]' },
  'model.name': { set: 'model.name=Qwen3-32B' },
  'model.weightPrecision': { set: 'model.weightPrecision=fp8' },
  'model.kvPrecision': { set: 'model.kvPrecision=fp8' },
  'serving.count': { set: 'serving[0].count=1' },
  'serving.placement': { set: 'serving[0].placement=spread' },
  'serving.role': { ground: ['serving=[{count: 2}, {count: 2}]'], set: 'serving=[{count: 2, role: prefill}, {count: 2, role: decode}]' },
  'serving.tensorParallel': { ground: ['cluster.gpusPerServer=4', 'cluster.racksPerPod=3'], set: 'serving[0].tensorParallel=2' },
  'serving.attention': {
    ground: [
      'cluster.gpusPerServer=4',
      'cluster.racksPerPod=3',
      'model={name: Qwen3-30B-A3B, weightPrecision: fp8}',
      'serving[0].tensorParallel=2',
    ],
    set: 'serving[0].attention=data-parallel',
  },
  'serving.blockTokens': {
    set: 'serving=[{count: 2, role: prefill, blockTokens: 32}, {count: 2, role: decode, blockTokens: 32}]',
    ground: ['serving=[{count: 2, role: prefill}, {count: 2, role: decode}]', reuse[2] as string],
  },
  'serving.maxSequences': { ground: busy, set: 'serving[1].maxSequences=2' },
  'serving.maxBatchedTokens': { set: 'serving[0].maxBatchedTokens=512' },
  'serving.maxModelTokens': { set: 'serving[0].maxModelTokens=1300' },
  'serving.schedulingPolicy': {
    ground: [...busy, ...tenants, 'workload.tenants[0].priority=1', 'serving[0].maxSequences=1', 'serving[0].maxBatchedTokens=512'],
    set: 'serving[0].schedulingPolicy=priority',
  },
  'serving.maxWaiting': { ground: [...busy, 'serving[0].maxSequences=1'], set: 'serving[0].maxWaiting=1' },
  'serving.kvBlocks': { ground: busy, set: 'serving[0].kvBlocks=300' },
  'serving.memoryUtilisation': { ground: busy, set: 'serving[0].memoryUtilisation=0.22' },
  'serving.prefixCaching': { set: 'serving[0].prefixCaching=false' },
  'serving.cacheBlocks': { set: 'serving[0].cacheBlocks=10' },
  'serving.eviction': { ground: tiny, set: 'serving[0].eviction=fifo' },
  'serving.timing.kind': { set: 'serving[0].timing={kind: polynomial}' },
  'serving.timing.profile': { set: 'serving[0].timing={kind: roofline, profile: default}' },
  'serving.timing.folder': { set: `serving[0].timing={kind: dynamo-profile, folder: ${profile}}` },
  'kvTiers.g2.gigabytes': { ground: g2Reuse, set: 'kvTiers.g2.gigabytes=0.1' },
  'kvTiers.g2.eviction': { ground: g2Reuse, set: 'kvTiers.g2.eviction=lfu' },
  'kvTiers.g2.mode': { ground: g2Reuse, set: 'kvTiers.g2.mode=on-eviction' },
  'kvTiers.g2.minimumFrequency': { ground: g2Reuse, set: 'kvTiers.g2.minimumFrequency=3' },
  'kvTiers.g2.latencyUs': { ground: g2Reuse, set: 'kvTiers.g2.latencyUs=2000' },
  'kvTiers.g2.pollMs': { ground: g2Reuse, set: 'kvTiers.g2.pollMs=7' },
  'kvTiers.g2.bytesPerSecond': { ground: g2Reuse, set: 'kvTiers.g2.bytesPerSecond=1.0e+9' },
  'kvTiers.g2.workerBytesPerSecond': { ground: g2Reuse, set: 'kvTiers.g2.workerBytesPerSecond=1.0e+9' },
  'kvTiers.g3.gigabytes': { ground: g3Reuse, set: 'kvTiers.g3.gigabytes=0.1' },
  'kvTiers.g3.eviction': { ground: g3Reuse, set: 'kvTiers.g3.eviction=lfu' },
  'kvTiers.g3.mode': { ground: g3Reuse, set: 'kvTiers.g3.mode=on-eviction' },
  'kvTiers.g3.minimumFrequency': { ground: g3Reuse, set: 'kvTiers.g3.minimumFrequency=3' },
  'kvTiers.g3.latencyUs': { ground: g3Reuse, set: 'kvTiers.g3.latencyUs=2000' },
  'kvTiers.g3.pollMs': { ground: g3Reuse, set: 'kvTiers.g3.pollMs=7' },
  'kvTiers.g3.bytesPerSecond': { ground: g3Reuse, set: 'kvTiers.g3.bytesPerSecond=1.0e+9' },
  'kvTiers.g4.gigabytes': { ground: g4Reuse, set: 'kvTiers.g4.gigabytes=0.1' },
  'kvTiers.g4.eviction': { ground: g4Reuse, set: 'kvTiers.g4.eviction=lfu' },
  'kvTiers.g4.mode': { ground: g4Reuse, set: 'kvTiers.g4.mode=on-eviction' },
  'kvTiers.g4.minimumFrequency': { ground: g4Reuse, set: 'kvTiers.g4.minimumFrequency=3' },
  'kvTiers.g4.latencyUs': { ground: g4Reuse, set: 'kvTiers.g4.latencyUs=3000' },
  'router.policy': { set: 'router.policy=round-robin' },
  'router.parameters': { set: 'router.parameters={omega: 0.1, tau: 0.8}' },
  'router.decode.policy': { set: 'router.decode={policy: random}' },
  'router.decode.parameters': { ground: ['router.decode={policy: kv}'], set: 'router.decode={policy: kv, parameters: {tau: 5}}' },
  'router.admission.policy': { set: 'router.admission={policy: limit, parameters: {maxInFlight: 1}}' },
  'router.admission.parameters': {
    ground: ['router.admission={policy: limit, parameters: {maxInFlight: 1}}'],
    set: 'router.admission={policy: limit, parameters: {maxInFlight: 2}}',
  },
  'router.frontends': { set: 'router.frontends=2' },
  'router.frontendBy': { ground: frontends, set: 'router.frontendBy=hash' },
  'router.replicaSyncMs': { ground: frontends, set: 'router.replicaSyncMs=10' },
  'router.decode.reserve': {
    ground: ['router.decode={policy: random}', 'serving[1].kvBlocks=150', ...busy],
    set: 'router.decode={policy: random, reserve: 0.5}',
  },
  'router.decode.utilisationCap': {
    ground: ['router.decode={policy: random}', 'serving[1].maxSequences=4', ...busy],
    set: 'router.decode={policy: random, utilisationCap: 0.5}',
  },
  'router.decode.nearPriority': {
    ground: ['router.decode={policy: random}', 'cluster.pods=2', 'serving[1].count=4'],
    set: 'router.decode={policy: random, nearPriority: 0}',
  },
  'router.decode.longestWaitMs': {
    ground: ['router.decode={policy: random, utilisationCap: 0.5}', 'serving[1].maxSequences=4', ...busy],
    set: 'router.decode={policy: random, utilisationCap: 0.5, longestWaitMs: 20}',
  },
  'router.decode.retryMs': {
    ground: ['router.decode={policy: random, utilisationCap: 0.5, longestWaitMs: 20}', 'serving[1].maxSequences=4', ...busy],
    set: 'router.decode={policy: random, utilisationCap: 0.5, longestWaitMs: 20, retryMs: 200}',
  },
  'router.decode.longTokens': {
    ground: ['router.decode={policy: random, utilisationCap: 0.5}', 'serving[1].maxSequences=4', ...busy],
    set: 'router.decode={policy: random, utilisationCap: 0.5, longTokens: 1400}',
  },
  'router.oracle.health': {
    ground: ['router.decode={policy: netkv}', 'router.oracle={policy: failing}', ...twoPods, 'cluster.serversPerRack=2'],
    set: 'router.oracle={policy: failing, parameters: {mode: slow}, health: {timeoutMs: 1, worstRatio: 1.01, errorWeight: 0.5}}',
  },
  'router.linkReportMs': {
    ground: [
      'router.decode={policy: netkv}',
      'router.oracle={policy: periodic}',
      'router.linkReportMs=1',
      'workload.requests=200',
      'workload.rateFactor=8',
      'serving[1].count=4',
      ...twoPods,
      'cluster.racksPerPod=2',
      'cluster.fabric.onOff=[{from: pod0/rack0/node0/gpu1, to: pod0/rack1/node0/gpu0, bytesPerSecond: 4.0e+10, meanOnMs: 100, meanOffMs: 100}]',
    ],
    set: 'router.linkReportMs=500',
  },
  // No built-in router reads the reports: the decisions table shows how old they were.
  'router.loadReportMs': { set: 'router.loadReportMs=20', shownBy: 'recordFingerprint' },
  'router.kvEventMs': { ground: reuse, set: 'router.kvEventMs=500' },
  'router.queue.order': { ground: limited, set: 'router.queue.order=wspt' },
  'router.queue.limit': { ground: limited, set: 'router.queue.limit=1' },
  'router.queue.maxEngineRequests': { ground: busy, set: 'router.queue.maxEngineRequests=1' },
  'router.queue.maxEnginePrefillTokens': { ground: busy, set: 'router.queue.maxEnginePrefillTokens=100' },
  'router.maxAttempts': { ground: [...busy, crash.replace('0.6', '0.3')], set: 'router.maxAttempts=1' },
  'router.onEngineDeath': { ground: [...busy, crash.replace('0.6', '0.3')], set: 'router.onEngineDeath=fail' },
  'router.maxInFlight': { ground: busy, set: 'router.maxInFlight=3' },
  'planner.policy': { set: `planner=${schedule(0.5)}` },
  'planner.parameters': { ground: ['planner={policy: schedule, parameters: {changes: []}}'], set: `planner=${schedule(0.5)}` },
  'planner.switchSeconds': { ground: [`planner=${schedule(0.5)}`], set: 'planner.switchSeconds=0.1' },
  'planner.startSeconds': {
    ground: [...busy, 'workload.requests=600', `planner=${stopAndStart(0.1, 0.5)}`],
    set: 'planner.startSeconds=0.1',
  },
  'workload.source.kind': { set: 'workload.source={kind: mooncake-like}' },
  'workload.source.file': { ground: csv, set: `workload.source.file=${testFile('other.csv', readTraceText(3))}` },
  'workload.source.format': { ground: csv, set: 'workload.source.format=azure' },
  'workload.source.arrivals': {
    ground: [`workload.source={kind: trace, file: ${testFile('burst.csv', burstText())}}`],
    set: 'workload.source.arrivals=as-is',
  },
  'workload.source.badRows': {
    ground: [`workload.source={kind: trace, file: ${testFile('bad.csv', `${readTraceText()}x,y,z\n`)}}`],
    set: 'workload.source.badRows=count',
  },
  'workload.source.prefixBlockTokens': {
    ground: [`workload.source={kind: trace, file: ${testFile('prefix.csv', prefixText())}}`],
    set: 'workload.source.prefixBlockTokens=64',
  },
  'workload.source.hashTokens': {
    ground: [`workload.source={kind: trace, hashTokens: 64, file: ${testFile('blocks.jsonl', mooncakeText(64))}}`],
    set: 'workload.source.hashTokens=32',
  },
  'workload.source.turnPrompts': {
    ground: [`workload.source={kind: trace, hashTokens: 64, file: ${testFile('turns.jsonl', mooncakeText(64, ', "session_id": "a"'))}}`],
    set: 'workload.source.turnPrompts=added',
  },
  'workload.source.parts': {
    ground: [`workload.source={kind: mixture, parts: [{source: {kind: trace, file: ${trace}}}]}`],
    set: `workload.source.parts=[{source: {kind: trace, file: ${trace}}}, {tenant: b, source: {kind: trace, file: ${trace}}}]`,
  },
  'workload.source.inputTokens': { set: `${independent}inputTokens={kind: constant, tokens: 50}` },
  'workload.source.outputTokens': { set: `${independent}outputTokens={kind: constant, tokens: 50}` },
  'workload.source.prefix': {
    set: `${independent}prefix={groups: 1, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 80}}`,
  },
  'workload.source.blockTokens': { ground: [reuse[2] as string], set: `${independent}blockTokens=32` },
  'workload.source.sessionArrivals': { ground: sessions, set: 'workload.source.sessionArrivals={kind: constant, ratePerSecond: 9}' },
  'workload.source.turns': { ground: sessions, set: 'workload.source.turns.tokens=2' },
  'workload.source.firstTokens': { ground: sessions, set: 'workload.source.firstTokens.tokens=100' },
  'workload.source.turnTokens': { ground: sessions, set: 'workload.source.turnTokens.tokens=10' },
  'workload.source.meanThinkS': { ground: sessions, set: 'workload.source.meanThinkS=2' },
  'workload.source.answerS': { ground: sessions, set: 'workload.source.answerS=3' },
  'workload.source.answerMsPerToken': { ground: sessions, set: 'workload.source.answerMsPerToken=90' },
  'workload.source.maxInputTokens': { ground: sessions, set: 'workload.source.maxInputTokens=600' },
  'workload.requests': { set: 'workload.requests=40' },
  'workload.rateFactor': { set: 'workload.rateFactor=2' },
  'workload.client.kind': { set: closed[0] as string },
  'workload.client.style': { ground: closed, set: 'workload.client.style=semaphore' },
  'workload.client.inFlight': { ground: closed, set: 'workload.client.inFlight=2' },
  'workload.client.meanThinkMs': { ground: closed, set: 'workload.client.meanThinkMs=50' },
  'workload.client.think': {
    ground: ['workload.client={kind: closed-loop, inFlight: 4, meanThinkMs: 50}'],
    set: 'workload.client.think=constant',
  },
  'workload.client.taskLimit': { ground: semaphore, set: 'workload.client.taskLimit=1' },
  'workload.connections.connections': { ground: connections, set: 'workload.connections.connections=5' },
  'workload.connections.order': { ground: connections, set: 'workload.connections.order=lifo' },
  'workload.connections.queueLimit': { ground: connections, set: 'workload.connections.queueLimit=1' },
  'workload.sessions.next': { ground: waiting, set: 'workload.sessions.next=think' },
  'workload.sessions.meanThinkMs': { ground: [...sessions, 'workload.sessions={next: think}'], set: 'workload.sessions.meanThinkMs=700' },
  'workload.sessions.think': {
    ground: [...sessions, 'workload.sessions={next: think, meanThinkMs: 500}'],
    set: 'workload.sessions.think=constant',
  },
  'workload.sessions.afterFailure': {
    ground: [...waiting, 'serving[0].maxModelTokens=600'],
    set: 'workload.sessions.afterFailure=abandon',
  },
  'workload.retry.timeoutMs': { ground: retry, set: 'workload.retry.timeoutMs=100' },
  'workload.retry.deadlineMs': { ground: retry, set: 'workload.retry.deadlineMs=200' },
  'workload.retry.attempts': { ground: retry, set: 'workload.retry.attempts=1' },
  'workload.retry.backoffMs': { ground: retry, set: 'workload.retry.backoffMs=90' },
  'workload.retry.backoffFactor': { ground: retry, set: 'workload.retry.backoffFactor=3' },
  'workload.retry.maxBackoffMs': { ground: retry, set: 'workload.retry.maxBackoffMs=5' },
  'workload.retry.jitter': { ground: retry, set: 'workload.retry.jitter=full' },
  'workload.tenants.share': { ground: [...tenants, 'workload.tenants[0].slo={ttftMs: 1}'], set: 'workload.tenants[0].share=9' },
  'workload.tenants.priority': { ground: [...tenants, ...limited, 'router.queue.order=wspt'], set: 'workload.tenants[0].priority=9' },
  'workload.tenants.slo': { ground: tenants, set: 'workload.tenants[0].slo={ttftMs: 1}' },
  'workload.slo.ttftMs': { set: 'workload.slo.ttftMs=20' },
  'workload.slo.tpotMs': { set: 'workload.slo.tpotMs=1' },
  'workload.slo.itlMs': { set: 'workload.slo.itlMs=1' },
  'workload.slo.e2eMs': { set: 'workload.slo.e2eMs=1' },
  'faults.kind': { set: crash },
  'faults.atSeconds': { ground: [crash], set: 'faults[0].atSeconds=1' },
  'faults.gpu': { ground: [crash], set: 'faults[0].gpu=pod0/rack0/node0/gpu1' },
  'faults.factor': { ground: [crash], set: 'faults[0].factor=0.3' },
  ...Object.fromEntries(
    ['from: pod0/rack1/node0/nic0, to: pod0/rack1/leaf0', 'from: pod0/rack0/node0/nic0, to: pod0/rack0/leaf0'].map((ends, index) => [
      ['faults.from', 'faults.to'][index] as string,
      {
        ground: ['faults=[{kind: link-share, atSeconds: 0.1, from: pod0/rack0/leaf0, to: pod0/spine0, share: 0.001}]'],
        set: `faults=[{kind: link-share, atSeconds: 0.1, ${ends}, share: 0.001}]`,
      },
    ]),
  ),
  'faults.share': {
    ground: ['faults=[{kind: link-share, atSeconds: 0.1, from: pod0/rack0/node0/nic0, to: pod0/rack0/leaf0, share: 1}]'],
    set: 'faults[0].share=0.001',
  },
  'faults.tier': {
    ground: [...g2Reuse, 'faults=[{kind: tier-speed, atSeconds: 0.8, tier: pod0/rack0/node0/g2, factor: 1}]'],
    set: 'faults[0]={kind: tier-speed, atSeconds: 0.8, tier: pod0/rack0/node0/g2, factor: 0}',
  },
  'faults.actor': {
    ground: ['router.loadReportMs=20', 'faults=[{kind: telemetry-loss, atSeconds: 0.1, actor: control/frontend0, lost: true}]'],
    set: 'faults[0].actor=pod0/rack0/node0/engine0',
  },
  'faults.lost': {
    ground: ['router.loadReportMs=20', 'faults=[{kind: telemetry-loss, atSeconds: 0.1, actor: control/frontend0, lost: true}]'],
    set: 'faults[0].lost=false',
  },
  'telemetry.seriesSeconds': { set: 'telemetry.seriesSeconds=0', shownBy: 'recordFingerprint' },
  'telemetry.decisionsEvery': { set: 'telemetry.decisionsEvery=2', shownBy: 'recordFingerprint' },
  'telemetry.candidates': { set: 'telemetry.candidates=1', shownBy: 'recordFingerprint' },
  'telemetry.firstTokenAt': { set: 'telemetry.firstTokenAt=prefill' },
  'telemetry.streamTokens': { set: 'telemetry.streamTokens=true', shownBy: 'events' },
  'delays.clientUs': { set: 'delays.clientUs=3000' },
  'delays.releaseUs': { ground: ['serving[0].kvBlocks=150', ...busy], set: 'delays.releaseUs=20000' },
  'delays.controlUs': { set: 'delays.controlUs=3000' },
};

/** Shown elsewhere: passes and promises must not change a result, names change no number, oracles have tests of their own. */
const elsewhere = new Set([
  'extends',
  'serving.passes',
  'execution.promises',
  'serving.name',
  'workload.tenants.name',
  'router.oracle.policy',
  'router.oracle.parameters',
  // test/control.test.ts, packages/cluster/test/poa-actor.test.ts
  'telemetry.poa.alarmFactor',
  'telemetry.poa.alarmSamples',
  'workload.client.policy',
  'workload.client.parameters',
  // test/plugs.test.ts
  'serving.evictionParameters',
  'kvTiers.g2.evictionParameters',
  'kvTiers.g3.evictionParameters',
  'kvTiers.g4.evictionParameters',
  'actors.policy',
  'actors.parameters',
]);

describe('every option has an effect, or is refused', () => {
  it('planner.startSeconds holds after a repair, too', async () => {
    const repair = crash.replace('}]', '}, {kind: gpu-speed, atSeconds: 0.7, gpu: pod0/rack0/node0/gpu0, factor: 1}]');
    const ground = ['workload.requests=200', 'router.policy=round-robin', repair];
    const servedLater = async (seconds: number): Promise<unknown> => {
      const { folder } = await runText(disaggregated, [...ground, `planner.startSeconds=${seconds}`]);
      const where = `prefill_worker = 'pod0/rack0/node0/engine0' and arrival_ns`;
      const sql = `select count(*) filter (${where} between 0.7e9 and 1.7e9) > 0, count(*) filter (${where} > 2e9) > 0 from requests`;
      return (await queryRun(folder, sql)).rows[0];
    };
    expect(await servedLater(1)).toEqual([false, true]);
    expect(await servedLater(60)).toEqual([false, false]);
  });

  for (const [path, { ground = [], set, shownBy }] of Object.entries(cases)) {
    it(path, async () => {
      const before = await outcomeOf(ground, shownBy);
      const after = await outcomeOf([...ground, set], shownBy);
      expect(after, `${set} over ${ground.join(' ') || 'the small scenario'}`).not.toEqual(before);
      if (typeof after !== 'string') expect((after as { faults: string[] }).faults).toEqual([]);
    });
  }

  it('no option of the schema is left out', () => {
    const known = Object.keys(cases);
    const missing = leafPaths(scenarioJsonSchema() as Schema, '').filter(
      (path) => !elsewhere.has(path) && !known.some((key) => path === key || path.startsWith(`${key}.`)),
    );
    expect(missing).toEqual([]);
  });

  it('names of groups and tenants appear where they are meant to', async () => {
    const read = parseScenario(disaggregated, 'names.yaml', ['serving[0].name=first', ...tenants]);
    expect(planCluster(read).groups.map(({ name }) => name)).toEqual(['first', 'decode1']);
    const run = await runText(disaggregated, [...tenants, 'workload.tenants[0].name=c']);
    const { rows } = await queryRun(run.folder, 'select distinct tenant from requests order by tenant');
    expect(rows).toEqual([['b'], ['c']]);
  });

  it('an oracle is asked, and its parameters reach it', async () => {
    const oracle = testFile(
      'oracle.ts',
      `import { defineOraclePolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineOraclePolicy({ name: 'fixed', description: 'One engine is near.', parameters: z.strictObject({ near: z.number() }),
         answer(question, answer, { near }) { for (let i = 0; i < question.count; i++) { const engine = question.candidates[i] as number; answer.transferNs[engine] = engine === near ? 1 : 1e9; } } });`,
    );
    const router = testFile(
      'nearest.ts',
      `import { defineRouterPolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineRouterPolicy({ name: 'nearest', description: 'Least transfer time.', parameters: z.strictObject({}), reads: { network: true },
         cost: (view, engine) => view.network?.transferNs[engine] ?? 0 });`,
    );
    for (const [near, place] of [
      [2, 'pod0/rack1/node0/engine0'],
      [3, 'pod0/rack1/node0/engine1'],
    ] as const) {
      const run = await runText(disaggregated, [
        `router.decode={policy: ${router}}`,
        `router.oracle={policy: ${oracle}, parameters: {near: ${near}}}`,
      ]);
      const { rows } = await queryRun(run.folder, 'select distinct decode_worker from requests');
      expect(rows).toEqual([[place]]);
    }
  });

  it('stepwise passes change nothing', async () => {
    const lazy = await outcomeOf([]);
    const stepwise = await outcomeOf(['serving[0].passes=stepwise', 'serving[1].passes=stepwise']);
    expect(timesOf(stepwise)).toEqual(timesOf(lazy));
  });
});

/**
 * What a run came to, or the first line of why there was none. What may differ though no result does is left out, but for the one value by which
 * an option shows that is meant to change no result.
 */
async function outcomeOf(settings: readonly string[], shownBy?: Case['shownBy']): Promise<unknown> {
  try {
    const whole = essence(await runText(disaggregated, settings)) as Record<string, unknown>;
    const { fingerprint: _messages, recordFingerprint: _records, events: _events, name: _name, seed: _seed, ...results } = whole;
    return shownBy === undefined ? results : { ...results, [shownBy]: whole[shownBy] };
  } catch (error) {
    const message = (error as Error).message.split('\n')[0] as string;
    expect(message).not.toMatch(/undefined|cannot read|not a function/i);
    return message;
  }
}

function timesOf(outcome: unknown): unknown {
  const { ttftMs, itlMs, e2eMs, tpotMs, completed, simulatedSeconds } = outcome as Record<string, unknown>;
  return { ttftMs, itlMs, e2eMs, tpotMs, completed, simulatedSeconds };
}

interface Schema {
  readonly type?: string;
  readonly properties?: Record<string, Schema>;
  readonly items?: Schema;
  readonly anyOf?: Schema[];
  readonly oneOf?: Schema[];
}

function leafPaths(schema: Schema, path: string): string[] {
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return [...new Set(choices.flatMap((choice) => leafPaths(choice, path)))];
  if (schema.items !== undefined && !Array.isArray(schema.items)) {
    const inner = leafPaths(schema.items, path);
    return inner.length === 0 ? [path] : inner;
  }
  if (schema.properties === undefined) return path === '' ? [] : [path];
  return Object.entries(schema.properties).flatMap(([name, inner]) => leafPaths(inner, path === '' ? name : `${path}.${name}`));
}

function schedule(atSeconds: number): string {
  const changes = [{ atMs: atSeconds * 1000, engine: 'pod0/rack1/node0/engine1', role: 'prefill' }];
  return JSON.stringify({ policy: 'schedule', parameters: { changes } });
}

function stopAndStart(stopSeconds: number, startSeconds: number): string {
  const engine = 'pod0/rack0/node0/engine0';
  const changes = [
    { atMs: stopSeconds * 1000, engine },
    { atMs: startSeconds * 1000, engine, role: 'prefill', start: true },
  ];
  return JSON.stringify({ policy: 'schedule', parameters: { changes } });
}

function readTraceText(step = 1): string {
  const rows = Array.from({ length: 60 }, (_, row) => `${row},${(row * 0.05 * step).toFixed(3)},${200 + 7 * row},${10 + (row % 7)}`);
  return `request_id,arrival_s,input_tokens,output_tokens\n${rows.join('\n')}\n`;
}

function burstText(): string {
  const rows = Array.from(
    { length: 60 },
    (_, row) => `${Math.floor(row / 10)},ChatGPT,${200 + 7 * row},${10 + (row % 7)},${210 + 7 * row + (row % 7)},Conversation log`,
  );
  return `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n${rows.join('\n')}\n`;
}

function prefixText(): string {
  const rows = Array.from({ length: 60 }, (_, row) => `${row},${(row * 0.05).toFixed(3)},${500 + row},12,g${row % 3},400`);
  return `request_id,arrival_s,input_tokens,output_tokens,prefix_group,prefix_tokens\n${rows.join('\n')}\n`;
}

/** In Mooncake's format, a hash for so many tokens. */
function mooncakeText(blockTokens: number, more = ''): string {
  const row = (index: number): string => {
    const inputTokens = 100 + 10 * index;
    const hashes = Array.from({ length: Math.ceil(inputTokens / blockTokens) }, (_, block) => block);
    return `{"timestamp": ${50 * index}, "input_length": ${inputTokens}, "output_length": 9, "hash_ids": [${hashes.join(', ')}]${more}}\n`;
  };
  return Array.from({ length: 40 }, (_, index) => row(index)).join('');
}

/** The H100 under its own name with half the memory bandwidth. */
function ownGpu(): string {
  const file = new URL('../../serving/data/gpus.json', import.meta.url);
  const { gpus } = JSON.parse(readFileSync(file, 'utf8')) as {
    gpus: { name: string; hbmBytesPerSecond: { value: number; source: string } }[];
  };
  const gpu = gpus.find(({ name }) => name === 'H100') as (typeof gpus)[number];
  gpu.hbmBytesPerSecond = { value: gpu.hbmBytesPerSecond.value / 2, source: 'made up for a test' };
  return testFile('gpus.json', JSON.stringify({ gpus: [gpu] }));
}

/** A made-up result of Dynamo's profiler. */
function profileFolder(): string {
  testFile('prefill_raw_data.json', JSON.stringify({ prefill_isl: [100, 1000, 10_000], prefill_ttft: [10, 40, 400] }));
  const decode = testFile(
    'decode_raw_data.json',
    JSON.stringify({
      x_kv_usage: [0.1, 0.9, 0.1, 0.9],
      y_context_length: [500, 500, 5000, 5000],
      z_itl: [5, 15, 6, 20],
      max_kv_tokens: [400_000],
    }),
  );
  return decode.slice(0, decode.lastIndexOf('/'));
}
