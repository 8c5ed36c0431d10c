import { expect, it } from 'vitest';
import { heatMap } from '../src/report/heat-map.ts';
import type { RunDatabase } from '../src/run/query.ts';

it('keeps the GPUs of a wide server within the page, each in a place of its own', async () => {
  const gpus = Array.from({ length: 4 * 72 }, (_, gpu) => `pod0/rack${Math.floor(gpu / 72)}/node0/gpu${gpu % 72}`);
  const rows = gpus.map((name, index) => [name, index / gpus.length]);
  const database = { query: async () => ({ columns: [], rows }) } as unknown as RunDatabase;
  const page = (await heatMap(database, gpus, 1100, 10)) as string;
  const places = [...page.matchAll(/<rect [^>]*width="([\d.]+)" y="([\d.]+)" x="([\d.]+)"/g)].map(([, width, y, x]) => ({
    right: Number(x) + Number(width),
    at: `${x} ${y}`,
  }));
  expect(places).toHaveLength(gpus.length);
  expect(Math.max(...places.map(({ right }) => right))).toBeLessThanOrEqual(1100);
  expect(new Set(places.map(({ at }) => at)).size).toBe(gpus.length);
});
