import { chainHash } from './block-identity.js';
import type { Uniform } from './distributions.js';
import { checkLength, type LengthSpec, sampleLength } from './lengths.js';
import { chooseWeighted, createWeightedChoice, type WeightedChoice, zipfWeights } from './tenants.js';
import { MAX_PROMPT_BLOCKS } from './trace-values.js';

/** Shared system prompts: each request (or session) begins with the prompt of one group. */
export interface PrefixGroupSpec {
  groups: number;
  popularity: { kind: 'uniform' } | { kind: 'zipf'; exponent: number };
  /** The length of each group's prompt, drawn once a group. */
  prefixTokens: LengthSpec;
}

/** The groups of a run; plain data. */
export interface PrefixGroups {
  choice: WeightedChoice;
  prefixTokens: Int32Array;
  /** Offsets into `hashes`: the chained ids of each group's whole blocks. */
  offsets: Int32Array;
  hashes: Float64Array;
}

const MAX_GROUPS = 1_048_576;
/** Of all groups together: half a gigabyte of hashes. */
const MAX_GROUP_BLOCKS = 67_108_864;
/** Keeps group ids apart from session ids. */
const GROUP_SALT = 2 ** 42;

/** Draws the groups' lengths: one draw each. */
export function createPrefixGroups(spec: PrefixGroupSpec, blockTokens: number, uniform: Uniform): PrefixGroups {
  if (!(Number.isInteger(spec.groups) && spec.groups >= 1 && spec.groups <= MAX_GROUPS)) {
    throw new RangeError(`prefix.groups is ${spec.groups}; must be a whole number from 1 to ${MAX_GROUPS}`);
  }
  checkLength(spec.prefixTokens, 'prefix.prefixTokens');
  const prefixTokens = new Int32Array(spec.groups);
  const offsets = new Int32Array(spec.groups + 1);
  for (let group = 0; group < spec.groups; group++) {
    prefixTokens[group] = sampleLength(spec.prefixTokens, uniform);
    const own = Math.floor(prefixTokens[group]! / blockTokens);
    if (own > MAX_PROMPT_BLOCKS)
      throw new RangeError(
        `prefix.prefixTokens is ${prefixTokens[group]} for group ${group}; at most ${MAX_PROMPT_BLOCKS * blockTokens}, ${MAX_PROMPT_BLOCKS} blocks of ${blockTokens}`,
      );
    const blocks = offsets[group]! + own;
    if (blocks > MAX_GROUP_BLOCKS)
      throw new RangeError(
        `prefix.prefixTokens of ${group + 1} of ${spec.groups} groups are ${blocks} blocks of ${blockTokens} tokens; at most ${MAX_GROUP_BLOCKS}: take fewer groups or shorter prefixes`,
      );
    offsets[group + 1] = blocks;
  }
  return { choice: groupChoice(spec), prefixTokens, offsets, hashes: chainGroups(offsets) };
}

/** Picks a group; one draw. */
export function chooseGroup(groups: PrefixGroups, uniform: Uniform): number {
  return chooseWeighted(groups.choice, uniform);
}

function groupChoice(spec: PrefixGroupSpec): WeightedChoice {
  if (spec.popularity.kind === 'uniform') return createWeightedChoice(new Float64Array(spec.groups).fill(1), 'prefix.groups');
  const exponent = spec.popularity.exponent;
  if (!(exponent >= 0 && exponent <= 10)) throw new RangeError(`prefix.popularity.exponent is ${exponent}; must be from 0 to 10`);
  return createWeightedChoice(zipfWeights(spec.groups, exponent), 'prefix.groups');
}

function chainGroups(offsets: Int32Array): Float64Array {
  const hashes = new Float64Array(offsets[offsets.length - 1]!);
  for (let group = 0; group + 1 < offsets.length; group++) {
    let hash = GROUP_SALT + group;
    for (let index = offsets[group]!; index < offsets[group + 1]!; index++) hashes[index] = hash = chainHash(hash, index - offsets[group]!);
  }
  return hashes;
}
