import { message } from '@braess/kernel';

/** fault schedule -> gpu: from now on it runs at `factor` of its speed (1 = healthy, 0 = dead). The gpu tells its engine. */
export const setGpuSpeed = message('setGpuSpeed', ['factor']);

/** gpu -> engine: a member's speed changed; the group runs at its slowest member's. */
export const memberSpeed = message('memberSpeed', ['member', 'factor']);

/** fault schedule -> fabric: links `first`..`first + count - 1` carry `share` of their capacity (0 = cut, 1 = whole). */
export const setLinkShare = message('setLinkShare', ['first', 'count', 'share']);

/**
 * fault schedule -> tier: from now on its device gives `factor` of its bandwidth. At 0 it is out: it holds nothing for anybody, takes nothing, and what
 * was under way is lost; network storage has its blocks again when it comes back, DRAM and NVMe come back empty.
 */
export const setTierSpeed = message('setTierSpeed', ['factor']);

/** fault schedule -> engine, frontend: drop telemetry (load reports, KV events) while `lost` is 1. */
export const setTelemetryLoss = message('setTelemetryLoss', ['lost']);
