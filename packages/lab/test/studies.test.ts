import { loadWorkload, readScenario } from '@braess/cluster';
import { runStudy, studyNamed } from '@braess/lab';
import { describe, expect, it } from 'vitest';
import { asks, madeUp, runOfStudy, type Study, type Task } from './made-up-runs.js';
import { aggregated, disaggregated, testFile } from './small-runs.js';

describe('study when-worth-it', () => {
  it('gains are those of the runs, and the finding follows them', async () => {
    const times = (netkv: number) => (task: Task) =>
      asks(task, 'netkv') ? madeUp(netkv, 100) : asks(task, 'cla') ? madeUp(1000, 250) : madeUp(1250, 500);
    const gainful = await runOfStudy('when-worth-it', times(880));
    const { head, rows } = gainful.tables[0]!;
    const column = (name: string): unknown[] => rows.map((row) => row[head.indexOf(name)]);
    for (const gain of column('gain on cla (%)')) expect(gain).toBeCloseTo(12, 9);
    for (const gain of column('gain on rr (%)')) expect(gain).toBeCloseTo(29.6, 9);
    expect(new Set(column('network share (%)'))).toEqual(new Set([25]));
    expect(new Set(column('worth it'))).toEqual(new Set(['strongly']));
    expect(gainful.finding).toContain('worth it at every length');
    expect(gainful.finding).toContain('greatest gain on cla is 12.0 %');

    const useless = await runOfStudy('when-worth-it', times(1000));
    expect(useless.finding).toContain('nowhere worth it');
    expect(new Set(useless.tables[0]!.rows.map((row) => row[head.indexOf('worth it')]))).toEqual(new Set(['not']));
    // The article goes by context alone, so it agrees where it says not.
    expect(useless.finding).toContain('agrees at 1 of 5 lengths');
  });

  it('asks for prompts of each length, with the KV of the model', async () => {
    const { tables, tasks } = await runOfStudy('when-worth-it', () => madeUp(1, 0.5));
    const { head, rows } = tables[0]!;
    // Llama-3.1-70B: 80 layers, 8 KV heads of 128, keys and values, 2 bytes.
    for (const row of rows) {
      const tokens = 1024 * Number.parseInt(String(row[head.indexOf('context')]), 10);
      expect(row[head.indexOf('KV (GB)')]).toBeCloseTo((2 * 80 * 8 * 128 * 2 * tokens) / 1e9, 9);
    }
    const prompts = new Set<number>();
    for (const task of tasks.filter((each) => each.settings.includes('seed=1') && asks(each, 'netkv'))) {
      const { table } = await loadWorkload(readScenario(task.file, task.settings));
      for (const tokens of table.inputTokens) prompts.add(tokens);
    }
    expect([...prompts].map((tokens) => tokens / 1024)).toEqual([2, 8, 32, 128, 256]);
  });

  it('studies a scenario of yours, says what does not fit, and refuses one that moves no KV', async () => {
    const file = testFile('yours.yaml', disaggregated);
    const { tables, tasks } = await runOfStudy('when-worth-it', () => madeUp(1, 0.5), file);
    expect(new Set(tasks.map((task) => task.file))).toEqual(new Set([file]));
    const { head, rows } = tables[0]!;
    expect(rows[0]![0]).toBe('your topology');
    expect(rows.at(-1)![head.indexOf('worth it')]).toMatch(/^the window ends at \d+|^an engine has room for \d+/);
    expect(rows.at(-1)![head.indexOf('TTFT, cla (ms)')]).toBeNull();
    await expect(runOfStudy('when-worth-it', () => madeUp(1, 1), testFile('whole.yaml', aggregated))).rejects.toThrow(
      /aggregated engines only/,
    );
    await expect(runStudy(studyNamed('oscillation') as Study, { quick: true, scenario: file })).rejects.toThrow(/leave --scenario out/);
  });
});
