import { afterAll, beforeAll, expect, it } from 'vitest';
import { createRandom } from '../support/random.ts';
import { FAULTS } from './catalogue.ts';
import type { Backend } from './fault.ts';
import { runFault } from './run-fault.ts';
import { hasRedisServer, type OwnPostgres, type OwnRedis, startOwnPostgres, startOwnRedis } from './world/services.ts';

// The short form of `npm run faults`: a few kinds of harm, each on one backend, always with the same seed.
const SHORT: readonly (readonly [fault: string, backend: Backend])[] = [
  ['cancels-and-steers', 'redis'],
  ['kill-random', 'postgres'],
  ['kill-after-commit', 'redis'],
  ['lost-replies', 'postgres'],
  ['redis-flush', 'redis'],
];
const SEED = 7;
const WITHIN_MS = 180_000;

const isRedisHere = hasRedisServer();
if (!isRedisHere) process.stdout.write('tests: no redis-server on the path: faults run on the Postgres backend only\n');

const services = new AsyncDisposableStack();
let postgres: OwnPostgres;
let redis: OwnRedis | null = null;

beforeAll(async () => {
  postgres = services.use(await startOwnPostgres());
  if (isRedisHere) redis = services.use(await startOwnRedis());
});
afterAll(() => services.disposeAsync());

it.each(SHORT.filter(([, backend]) => backend === 'postgres' || isRedisHere))(
  '%s on %s costs nothing',
  async (name, backend) => {
    const fault = FAULTS.find((each) => each.name === name);
    if (fault === undefined) throw new Error(`there is no fault ${name}`);
    const result = await runFault({
      fault,
      backend,
      runs: 16,
      sessions: 8,
      random: createRandom(SEED),
      postgres,
      redis,
      signal: new AbortController().signal,
      logFile: undefined,
    });
    const { unknownTools: _allowed, ...findings } = result.findings;
    expect(findings).toEqual(Object.fromEntries(Object.keys(findings).map((kind) => [kind, []])));
  },
  WITHIN_MS,
);
