import { KernelError } from '@braess/kernel';
import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { checkCores, checkNode, type Diagnosis, diagnose } from '../src/commands/doctor.js';
import { exitCodeOf } from '../src/exit-codes.js';
import { replayCommand } from '../src/replay.js';
import { braess } from './braess-process.js';

describe('braess doctor', () => {
  it('finds all that is needed here, every transport with one fingerprint', async () => {
    const { code, out } = await braess(['doctor', '--json']);
    expect(code).toBe(0);
    const { ok, checks, places } = JSON.parse(out) as Diagnosis;
    expect(ok).toBe(true);
    expect(checks.map((check) => check.name)).toEqual([
      'Node.js',
      'cores',
      'shared memory, Atomics.wait',
      "transport 'memory'",
      "transport 'threads'",
      "transport 'bridged'",
    ]);
    expect(new Set(checks.slice(3).map((check) => check.found)).size).toBe(1);
    expect(places.length).toBeGreaterThan(0);
  });

  it('prints tables without --json', async () => {
    const { code, out } = await braess(['doctor']);
    expect(code).toBe(0);
    expect(out).toContain(process.versions.node);
    expect(out).toContain('Braess can run here.');
  });

  it.each([
    ['18.20.4', false],
    ['20.18.3', false],
    ['20.19.0', true],
    ['21.0.0', true],
    ['22.1.0', true],
  ])('Node %s passes: %s', (version, ok) => {
    expect(checkNode(version)).toMatchObject({ ok, needed: true, found: version, fix: ok ? '' : 'install Node 20.19 or later' });
  });

  it('is not well with an old Node, and does not try the kernel on it', async () => {
    const { ok, checks } = await diagnose('18.0.0');
    expect(ok).toBe(false);
    expect(checks).toHaveLength(3);
  });

  it('can do without a second core', () => {
    expect(checkCores(1)).toMatchObject({ ok: false, needed: false });
    expect(checkCores(2)).toMatchObject({ ok: true });
  });
});

describe('exit codes', () => {
  function outcome(error: unknown): { code: number; printed: string } {
    let printed = '';
    const code = exitCodeOf(error, (text) => (printed += text));
    return { code, printed };
  }

  it('a kernel failure is 1, with actor, time, seed and replay command', () => {
    const replay = replayCommand(['braess', 'bench', 'phold'], { actors: 64, seed: "it's" });
    expect(replay).toBe("braess bench phold --actors 64 --seed 'it'\\''s'");
    const error = new KernelError('handler-failed', 'it broke', { actor: 'particle1', message: 'event', timeNs: 5, seed: '7', replay });
    const { code, printed } = outcome(error);
    expect(code).toBe(1);
    expect(printed).toBe(`error: it broke\n  at actor particle1, message 'event', simulated time 5 ns, seed '7'\n  replay: ${replay}`);
  });

  it('help is 0, a bad option 2, and commander has printed both', () => {
    expect(outcome(new CommanderError(0, 'commander.helpDisplayed', ''))).toEqual({ code: 0, printed: '' });
    expect(outcome(new CommanderError(1, 'commander.unknownOption', 'unknown option'))).toEqual({ code: 2, printed: '' });
  });
});
