import { type ActorPlug, type BoundPolicy, callPolicy, policyFailure, thrownFault } from '@braess/control';
import type { ActorKind, Cell, World } from '@braess/kernel';

/** Builds a user's actors in a cell of the control class; what their handlers throw names their file. */
export function addOwnActors(
  world: World,
  bound: BoundPolicy<ActorPlug>,
  index: number,
  actors: ReadonlyMap<string, { readonly id: number }>,
): void {
  const cell = world.cell(`own${index}`, { class: 'control' });
  const guarding: Cell = { name: cell.name, actor: (name, kind, setup) => cell.actor(name, guarded(bound, kind), setup) };
  callPolicy(
    bound,
    () => 'to declare its actors',
    () => bound.policy.build(guarding, bound.parameters, { actors }, world),
  );
}

function guarded<Kind extends ActorKind<string, string, never>>(bound: BoundPolicy<ActorPlug>, kind: Kind): Kind {
  const guard = <Arguments extends unknown[]>(asked: string, run: (...values: Arguments) => void) => {
    return (...values: Arguments): void => {
      try {
        run(...values);
      } catch (thrown) {
        throw policyFailure(bound, asked, thrownFault(thrown), thrown);
      }
    };
  };
  return {
    ...kind,
    ...(kind.start === undefined ? {} : { start: guard('to start', kind.start) }),
    handlers: kind.handlers.map((handler, place) => guard(`to handle '${kind.messages[place]?.name}'`, handler)),
  };
}
