import { type ActorId, actorKind, defineProgram, message, modelOf, type RunRecord, record, Simulation } from '@braess/kernel';
import { oneFingerprint } from '@braess/kernel/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const go = message('go');
const hit = message('hit', ['sequence']);
const arrived = record('arrived', ['shooter', 'sequence']);

interface Shot {
  readonly atNs: number;
  /** Delays of messages sent in one handler. */
  readonly delaysNs: readonly number[];
}

describe('order', () => {
  it('of messages to one actor is (time, step, sender, sequence), whatever the shards', async () => {
    const shot: fc.Arbitrary<Shot> = fc.record({
      atNs: fc.constantFrom(0, 10, 10, 20, 30),
      delaysNs: fc.array(fc.constantFrom(10, 10, 20, 30), { maxLength: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(shot, { maxLength: 4 }), { minLength: 2, maxLength: 6 }), async (shooters) => {
        const target = actorKind({
          name: 'target',
          messages: { hit },
          state: () => ({}),
          on: {
            hit(_state, { sender, sequence }, context) {
              context.emit(arrived, sender, sequence);
            },
          },
        });
        let targetId: () => number = () => 0;
        const shooter = actorKind({
          name: 'shooter',
          messages: { go },
          state: (shots: readonly Shot[]) => ({ shots: [...shots].sort((a, b) => a.atNs - b.atNs), fired: 0, sent: 0 }),
          start(state, context) {
            for (const { atNs } of state.shots) context.send(context.self, go, atNs);
          },
          on: {
            go(state, _message, context) {
              for (const delayNs of (state.shots[state.fired++] as Shot).delaysNs)
                context.send(targetId() as ActorId<'hit'>, hit, delayNs, state.sent++);
            },
          },
        });
        const program = defineProgram(undefined, 'order', (world) => {
          for (const [index, shots] of shooters.entries()) world.actor(`shooter${index}`, shooter, shots);
          const reference = world.actor('middle', target, undefined);
          targetId = () => reference.id;
          world.lookahead('default', 'default', 10);
        });
        await oneFingerprint(program, undefined, { matrix: 'memory', restores: [[2, 3]], checkpointAtNs: 20 });
        // Expected from the plan alone: 'middle' sorts before every shooter, so shooter i has id i + 1.
        const expected = shooters.flatMap((shots, index) => {
          let sent = 0;
          return [...shots]
            .sort((a, b) => a.atNs - b.atNs)
            .flatMap(({ atNs, delaysNs }) => delaysNs.map((delayNs) => ({ timeNs: atNs + delayNs, sender: index + 1, sequence: sent++ })));
        });
        expected.sort((a, b) => a.timeNs - b.timeNs || a.sender - b.sender || a.sequence - b.sequence);
        for (const shards of [1, 3]) {
          const simulation = new Simulation(modelOf(program, undefined), { shards, keepRecords: true });
          simulation.runUntil();
          const found = simulation.takeRecords().map(({ timeNs, fields }) => ({ timeNs, sender: fields[0], sequence: fields[1] }));
          expect(found).toEqual(expected);
        }
      }),
      { seed: 5, numRuns: 150 },
    );
  });

  it('puts zero-delay sends behind everything that was sent with a delay, then by step', () => {
    // Inside one cell. At 10 ns: b (id 1) gets a message from z with delay 10 (step 0), and from a a zero-delay chain that begins at 10 ns.
    const log: string[] = [];
    const chain = message('chain', ['left']);
    const peers = new Map<string, () => ActorId>();
    const kind = actorKind({
      name: 'chained',
      messages: { go, chain },
      state: (name: string) => ({ name }),
      start(state, context) {
        context.send(context.self, go, 10);
        if (state.name === 'z') context.send((peers.get('b') as () => ActorId)(), chain, 10, 0);
      },
      on: {
        go(state, _message, context) {
          log.push(`${state.name} go`);
          if (state.name === 'a') context.send((peers.get('b') as () => ActorId)(), chain, 0, 2);
        },
        chain(state, { left }, context) {
          log.push(`${state.name} chain ${left}`);
          if (left > 0) context.send((peers.get(state.name === 'a' ? 'b' : 'a') as () => ActorId)(), chain, 0, left - 1);
        },
      },
    });
    const program = defineProgram(undefined, 'steps', (world) => {
      const cell = world.cell('c');
      for (const name of ['z', 'b', 'a']) {
        const reference = cell.actor(name, kind, name);
        peers.set(name, () => reference.id as ActorId);
      }
    });
    const simulation = new Simulation(modelOf(program, undefined));
    simulation.runUntil();
    // Step 0 by sender a, b, z (z sent its go before its chain); then steps 1, 2, 3.
    expect(log).toEqual(['a go', 'b go', 'z go', 'b chain 0', 'b chain 2', 'a chain 1', 'b chain 0']);
  });

  it('of ids is by code unit of the names, not by declaration or locale', () => {
    const kind = actorKind({ name: 'k', messages: { go }, state: () => ({}), on: { go() {} } });
    const names = ['ä', 'a', 'Z', 'a/b', 'a0', '😀', '\ufb01', 'b10', 'b9'];
    const program = defineProgram(undefined, 'names', (world) => {
      for (const name of names) world.actor(name, kind, undefined);
    });
    const sorted = [...names].sort((a, b) => (a < b ? -1 : 1));
    expect(modelOf(program, undefined).actorNames).toEqual(sorted);
    expect(sorted).toEqual(['Z', 'a', 'a/b', 'a0', 'b10', 'b9', 'ä', '😀', '\ufb01']);
  });

  it('of records is (time, step, actor, number), the same list for every shard count', () => {
    const note = record('note', ['n']);
    const kind = actorKind({
      name: 'noting',
      messages: { go },
      state: () => ({ left: 2 }),
      start: (_state, context) => context.send(context.self, go, 5),
      on: {
        go(state, _message, context) {
          context.emit(note, 1);
          context.emit(note, 2);
          if (state.left-- > 0) context.send(context.self, go, 0);
        },
      },
    });
    const program = defineProgram(undefined, 'notes', (world) => {
      for (const name of ['c', 'a', 'b']) world.actor(name, kind, undefined);
    });
    const keys = (shards: number): number[][] => {
      const simulation = new Simulation(modelOf(program, undefined), { shards, keepRecords: true });
      simulation.runUntil();
      return simulation.takeRecords().map((entry: RunRecord) => [entry.timeNs, entry.step, entry.actor, entry.number]);
    };
    const expected = [0, 1, 2].flatMap((step) => [0, 1, 2].flatMap((actor) => [0, 1].map((n) => [5, step, actor, 2 * step + n])));
    for (const shards of [1, 2, 3]) expect(keys(shards)).toEqual(expected);
  });
});
