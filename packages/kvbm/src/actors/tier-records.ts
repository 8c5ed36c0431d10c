import { record } from '@braess/kernel';

/** Use of a tier at the time of the record: blocks, transfers under way, bytes moved since the last such record. */
export const tierLoad = record('tierLoad', ['tier', 'usedBlocks', 'capacityBlocks', 'pinnedBlocks', 'transfers', 'movedBytes']);

/** What happened in a tier since its last such record. */
export const tierCounts = record('tierCounts', [
  'storedBlocks',
  'evictedBlocks',
  'filteredBlocks',
  'refusedBlocks',
  'askedBlocks',
  'foundBlocks',
]);
