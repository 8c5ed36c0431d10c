import { fromUnknown, KernelError } from './errors.js';
import { refuseReturned } from './handlers.js';
import { kindOf } from './refusals.js';
import type { ShardEngine } from './shard-engine.js';
import { showWork } from './shard-task.js';

/**
 * What the actors of a shard find wrong with the states they ended in, `actor: sentence` each; see `atEnd` of a kind.
 * @throws KernelError that names the actor whose `atEnd` threw or returned something else than a list.
 */
export function endFaultsOf(engine: ShardEngine): string[] {
  const { model } = engine;
  return Array.from(engine.ownActors()).flatMap((actor) => {
    const atEnd = kindOf(model, actor).atEnd as ((state: unknown) => unknown) | undefined;
    if (atEnd === undefined) return [];
    const name = model.actorNames[actor] as string;
    const site = { actor: name, message: 'atEnd', timeNs: engine.now || 0, shard: engine.shard, seed: engine.seed };
    showWork(engine.watch, model, actor, 'atEnd');
    try {
      const sentences = atEnd(engine.states[actor]) ?? [];
      refuseReturned(sentences, 'atEnd');
      if (!Array.isArray(sentences)) refuseSentences(sentences);
      return sentences.map((sentence) => `${name}: ${sentence}`);
    } catch (error) {
      throw error instanceof KernelError ? error.at(site) : fromUnknown(error, site);
    }
  });
}

function refuseSentences(returned: unknown): never {
  throw new KernelError('bad-value', `atEnd returned a ${typeof returned}; it must return a list of sentences`);
}
