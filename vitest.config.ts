import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // As the condition `baton-source` does for Node and the compiler.
    alias: {
      'baton/client': fileURLToPath(new URL('src/client/client.ts', import.meta.url)),
      'baton/tools': fileURLToPath(new URL('src/tools/define-tool.ts', import.meta.url)),
    },
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    reporters: ['default', './test/support/closing-line-reporter.ts'],
    // Much of the time is spent in waiting, for processes that start and for leases that end.
    maxWorkers: 3,
  },
});
