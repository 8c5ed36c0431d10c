import type { FrontendOptions } from '@braess/control';
import type { Scenario } from './scenario/schema.js';

type Router = Scenario['router'];

/** What narrows the choice of a decode engine, from milliseconds to ns. */
export function decodeStageOptions({ decode }: Router): NonNullable<FrontendOptions['decodeStage']> {
  if (decode === undefined) return {};
  const { reserve, utilisationCap, nearPriority, longestWaitMs, longTokens, retryMs } = decode;
  return {
    retryNs: Math.max(1, Math.round(retryMs * 1e6)),
    ...(reserve === undefined ? {} : { reserve }),
    ...(utilisationCap === undefined ? {} : { utilisationCap }),
    ...(nearPriority === undefined ? {} : { nearPriority }),
    ...(longestWaitMs === undefined ? {} : { longestWaitNs: Math.round(longestWaitMs * 1e6) }),
    ...(longTokens === undefined ? {} : { longTokens }),
  };
}

export function oracleHealth({ oracle }: Router): NonNullable<FrontendOptions['oracleHealth']> {
  if (oracle === undefined) return {};
  const { timeoutMs, worstRatio, errorWeight, fallback } = oracle.health;
  return {
    errorWeight,
    fallback,
    ...(timeoutMs === undefined ? {} : { timeoutNs: Math.round(timeoutMs * 1e6) }),
    ...(worstRatio === undefined ? {} : { worstRatio }),
  };
}

/** The router's own queue. */
export function queueOptions({ queue }: Router): NonNullable<FrontendOptions['queue']> {
  const { order, limit, maxEngineRequests, maxEnginePrefillTokens } = queue;
  return {
    order,
    limit,
    ...(maxEngineRequests === undefined ? {} : { maxEngineRequests }),
    ...(maxEnginePrefillTokens === undefined ? {} : { maxEnginePrefillTokens }),
  };
}
