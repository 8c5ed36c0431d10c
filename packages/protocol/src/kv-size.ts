/** What a sequence keeps beside its blocks, over all GPUs of an engine: it does not grow with the context. */
export interface FixedKv {
  /** Of layers that look back over a window: its tokens, and bytes for each of them. */
  readonly windowTokens: number;
  readonly windowBytesPerToken: number;
  /** States of layers with linear attention. */
  readonly stateBytes: number;
}

/** Of models whose layers all keep every token. */
export const noFixedKv: FixedKv = { windowTokens: 0, windowBytesPerToken: 0, stateBytes: 0 };

/** Bytes to move for the last so many tokens of a prompt: `bytesPerToken` for each in the layers that keep all, what the windows reach, and states. */
export function kvMoveBytes(tokens: number, bytesPerToken: number, fixed: FixedKv): number {
  return tokens * bytesPerToken + Math.min(tokens, fixed.windowTokens) * fixed.windowBytesPerToken + fixed.stateBytes;
}
