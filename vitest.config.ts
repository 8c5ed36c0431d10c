import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'apps/*/test/**/*.test.ts', 'bench/test/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    // Tests import the built packages (workers can run nothing else), so every run builds first.
    globalSetup: ['./test/build-first.ts'],
    // Nearly all is synchronous, which Vitest's own limit cannot end.
    runner: './test/sync-limits.ts',
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});
