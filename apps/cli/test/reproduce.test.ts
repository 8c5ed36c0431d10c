import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();

describe('braess reproduce', () => {
  it('prints rows as JSON and writes them with a page that loads nothing', async () => {
    const out = folder.path('table6');
    const { code, out: text } = await braess(['reproduce', 'netkv', '--table', '6', '--quick', '--json', '--out', out]);
    expect(code).toBe(0);
    const { rows } = JSON.parse(text) as { rows: Record<string, unknown>[] };
    expect(rows.map(({ id }) => id)).toEqual(['cla', 'netkv'].flatMap((name) => [0, 1, 2, 3].map((tier) => `table6.${name}.tier${tier}`)));
    for (const row of rows) expect(Object.keys(row)).toEqual(['id', 'published', 'emulated', 'ciLow', 'ciHigh', 'unit', 'basis']);
    const shares = rows.filter(({ id }) => String(id).startsWith('table6.netkv')).map(({ emulated }) => emulated as number);
    expect(shares.reduce((sum, share) => sum + share)).toBeCloseTo(100, 9);
    // Near decode groups are a third; NetKV sends there more than that, CLA* about so many.
    expect(shares[2]).toBeGreaterThan(50);
    expect(JSON.parse(readFileSync(join(out, 'rows.json'), 'utf8'))).toEqual({ rows });
    const page = readFileSync(join(out, 'report.html'), 'utf8');
    expect(page).toContain('table6.netkv.tier3');
    expect(page).not.toMatch(/<script|(src|href)="http/);
  });

  it('refuses what there is not', async () => {
    const wrongPaper = await braess(['reproduce', 'netvk']);
    expect(wrongPaper).toMatchObject({ code: 2, err: expect.stringContaining('there are ') as string });
    const out = folder.path('none');
    const wrongTable = await braess(['reproduce', 'netkv', '--table', '9', '--out', out]);
    expect(wrongTable).toMatchObject({
      code: 2,
      err: expect.stringContaining('netkv has no table 9; it has tables 2, 3, 4, 5, 6') as string,
    });
    expect(existsSync(out)).toBe(false);
    expect(await braess(['fit', 'nothing'])).toMatchObject({ code: 2, err: expect.stringContaining('there is netkv') as string });
  });
});
