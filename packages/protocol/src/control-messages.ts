import { body, message } from '@braess/kernel';

/** What one scrape of a target returns. */
export interface ScrapedMetrics {
  /** Counts of all TTFTs the target ever saw, by the buckets of `latencyBucket`; null where it does not measure them. */
  readonly ttftCounts: Float64Array | null;
  readonly ttftSumNs: number;
  /** Requests at each engine that decodes, by engine number, as the target knows them; 0 for the others. Null for targets that place nothing. */
  readonly decodeRequests: Float64Array | null;
  /** Further metrics by name. */
  readonly values: ReadonlyMap<string, number>;
}

/** frontend -> controller: there are requests again; scraping may begin. */
export const trafficStarted = message('trafficStarted');

/** controller -> frontend, client, or any actor with metrics: tell me your metrics. */
export const scrape = message('scrape', ['round']);

/** target -> controller: the answer to a scrape. `lost` 1: the target cannot be scraped now, and its metrics mean nothing. */
export const scraped = message('scraped', ['round', 'inFlight', 'waiting', 'lost'], body<ScrapedMetrics>());

/** controller -> frontend: from now on route by these parameters, over those you began with. */
export const setRouterParameters = message('setRouterParameters', [], body<{ readonly parameters: Readonly<Record<string, unknown>> }>());

/** frontend -> client, only where clients measure TTFT: the first token of a request came out of its engine. */
export const answerBegan = message('answerBegan', ['request', 'firstTokenNs']);
