/** KV of the layers that look back over the last tokens only: how many of these, and their bytes a token over all GPUs of an engine. */
export interface KvWindow {
  readonly tokens: number;
  readonly bytesPerToken: number;
}

/** Of models whose layers all keep every token. */
export const noKvWindow: KvWindow = { tokens: 0, bytesPerToken: 0 };

/** Bytes of KV to move for the last so many tokens of a prompt: `bytesPerToken` for each in the layers that keep all, and what the windows reach. */
export function kvMoveBytes(tokens: number, bytesPerToken: number, window: KvWindow): number {
  return tokens * bytesPerToken + Math.min(tokens, window.tokens) * window.bytesPerToken;
}
