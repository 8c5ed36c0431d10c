import type { ShardEngine } from './shard-engine.js';

/** What the actors of a shard find wrong with the states they ended in, `actor: sentence` each; see `atEnd` of a kind. */
export function endFaultsOf(engine: ShardEngine): string[] {
  const { model, states } = engine;
  return Array.from(engine.ownActors()).flatMap((actor) => {
    const atEnd = model.kinds[model.kindOfActor[actor] as number]?.atEnd as ((state: unknown) => readonly string[]) | undefined;
    return (atEnd?.(states[actor]) ?? []).map((sentence) => `${model.actorNames[actor]}: ${sentence}`);
  });
}
