import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';
import LongestFirst from './test/support/longest-first.ts';

const EVERY_TEST = 'test/**/*.test.ts';

/** The whole service as people run it, under harm, or with what a bare machine lacks. All other files are the product's. */
const SYSTEM = [
  'test/**/*docs.test.ts',
  'test/abuse/**',
  'test/app/own-places.test.ts',
  'test/app/poolers.test.ts',
  'test/service/library-warnings.test.ts',
  'test/service/step-processes.test.ts',
  'test/bench/**',
  'test/cli/baton.test.ts',
  'test/cli/baton-children.test.ts',
  'test/cli/demo.test.ts',
  'test/cli/edges.test.ts',
  'test/cli/keys.test.ts',
  'test/cli/retention.test.ts',
  'test/cli/simulate-without-model.test.ts',
  'test/client/browser.test.ts',
  'test/console/**',
  'test/deploy/**',
  'test/docs/**',
  'test/embedded/**',
  'test/examples/**',
  'test/facades/chat-versions/**',
  'test/facades/mcp-conformance/**',
  'test/faults/**',
  'test/flow/api-process.test.ts',
  'test/flow/children-deaths.test.ts',
  'test/flow/commands-die.test.ts',
  'test/flow/endpoint-pairs.test.ts',
  'test/flow/full-stores.test.ts',
  'test/flow/half-bodies.test.ts',
  'test/flow/liveness.test.ts',
  'test/flow/own-files.test.ts',
  'test/flow/postgres-outage.test.ts',
  'test/flow/processes.test.ts',
  'test/flow/readme.test.ts',
  'test/flow/tenant-concurrency.test.ts',
  'test/flow/trial.test.ts',
  'test/flow/waiting-deaths.test.ts',
  'test/flow/waiting-memory.test.ts',
  'test/fuzz/**',
  'test/http/docs-page-browser.test.ts',
  'test/metrics/promtool.test.ts',
  'test/package/**',
  'test/tools/mcp-reference-servers.test.ts',
  'test/eval/**',
  'test/platform/patient-connect.test.ts',
  'test/store/protocol/broken-promises.test.ts',
];

/**
 * These need a process of their own: two count what it holds, three register telemetry for all of it, one looks at what
 * its worker locks, one replaces a limit of every module.
 */
const ALONE = [
  'test/faults/flatness.test.ts',
  'test/flow/gen-ai-conventions.test.ts',
  'test/flow/tracing.test.ts',
  'test/recovery/worker-watch.test.ts',
  'test/step/leaks.test.ts',
  'test/store/deadlocks.test.ts',
  'test/tools/mcp-trace.test.ts',
];

/** The files with cases for Redis, which all name what gives them their backends. */
const WITH_REDIS = globSync(EVERY_TEST, { cwd: import.meta.dirname }).filter((file) =>
  /\b(?:availableBackends|busBackends|inject\('redisUrl'\))/.test(readFileSync(new URL(file, import.meta.url), 'utf8')),
);

/** With more runs of each property (test/support/property-runs.ts) the dear ones take more than their time. */
const LONGER = Math.max(1, Number(process.env['BATON_TEST_RUNS'] ?? 50) / 50);

export default defineConfig({
  test: {
    // As the condition `baton-source` does for Node and the compiler.
    alias: {
      '@baton-run/server/client': fileURLToPath(new URL('src/client/client.ts', import.meta.url)),
      '@baton-run/server/tools': fileURLToPath(new URL('src/tools/define-tool.ts', import.meta.url)),
    },
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/property-runs.ts'],
    testTimeout: 120_000 * LONGER,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 90_000 } },
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './test/support/closing-line-reporter.ts'],
    // Much of the time is spent in waiting, for processes that start and for leases that end.
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: {
          name: 'product',
          // Most of a file's time would go into loading the product once more: files of a worker process share it.
          isolate: false,
          include: [EVERY_TEST],
          exclude: [...configDefaults.exclude, ...SYSTEM, ...ALONE],
          provide: { backends: ['postgres'], redisUrl: null },
        },
      },
      {
        extends: true,
        test: {
          name: 'redis',
          isolate: false,
          include: WITH_REDIS,
          exclude: [...configDefaults.exclude, ...SYSTEM, ...ALONE],
          provide: { backends: ['redis'] },
          setupFiles: ['test/support/skip-without-redis.ts'],
        },
      },
      {
        extends: true,
        test: {
          name: 'system',
          isolate: false,
          include: SYSTEM.map((glob) => glob.replace(/\*\*$/, '**/*.test.ts')),
          exclude: [...configDefaults.exclude, ...ALONE],
          provide: { backends: ['redis', 'postgres'] },
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          include: ALONE,
          provide: { backends: ['redis', 'postgres'] },
        },
      },
    ],
  },
});
