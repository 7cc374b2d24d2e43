import { expect, it } from 'vitest';
import { hasRedisServer, startOwnRedis } from '../faults/world/services.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

it('what libraries warn of is a line of the log, once, and nothing else is on stdout and stderr', async ({ skip }) => {
  if (!hasRedisServer()) return skip('there is no redis-server here');
  await using redis = await startOwnRedis(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
  await using database = await createTestDatabase();
  const environment = {
    DATABASE_URL: database.connectionString,
    // ioredis warns about a password that the server does not require.
    REDIS_URL: `redis://:needless@127.0.0.1:${redis.port}`,
    BATON_SIMULATOR_URL: 'http://127.0.0.1:9',
  };
  // This helper parses each line of stdout as JSON.
  await using worker = await startWorkerProcess('steps', environment, ['--import', printing]);
  const warnings = () => worker.logged.filter(({ event }) => event === 'library_warning');
  process.kill(worker.pid, 'SIGUSR2');
  await eventually(async () => warnings().length >= 3, 'the warnings are logged');
  expect(await worker.kill('SIGTERM')).toBe(0);
  expect(
    warnings()
      .map(({ library, message }) => [library, message])
      .toSorted(),
  ).toEqual([
    ['bullmq', 'IMPORTANT! Eviction policy is allkeys-lru. It should be "noeviction"'],
    ['ioredis', expect.stringContaining('does not require a password, but a password was supplied')],
    ['node', 'Warning: of the process'],
  ]);
  expect(worker.stderr(), 'what a module of ours prints is its own').toBe('of a tool\n');
});

/** On SIGUSR2, prints as a user's tool may, and warns as Node does. */
const printing = `data:text/javascript,${encodeURIComponent(
  `process.once('SIGUSR2', () => { console.error('of a tool'); process.emitWarning('of the process'); });`,
)}`;
