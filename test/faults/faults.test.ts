import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ProfileName } from '../../simulator/profiles.ts';
import { createRandom } from '../support/random.ts';
import { FAULTS } from './catalogue.ts';
import type { Backend, Fault } from './fault.ts';
import { toRow } from './report.ts';
import { type FaultResult, runFault } from './run-fault.ts';
import { killAt } from './strikes/kill-at.ts';
import { hasRedisServer, type OwnPostgres, type OwnRedis, startOwnPostgres, startOwnRedis } from './world/services.ts';

// The short form of `npm run faults`: a few kinds of harm, each on one backend, always with the same seed.
const SHORT: readonly (readonly [fault: string, backend: Backend, over?: ProfileName])[] = [
  ['cancels-and-steers', 'redis', 'mistral'],
  ['kill-random', 'postgres', 'anthropic'],
  ['kill-after-commit', 'redis'],
  ['lost-replies', 'postgres'],
  ['redis-flush', 'redis'],
  ['kill-compaction', 'postgres', 'gemini-compat'],
  ['kill-in-approval', 'redis'],
  ['kill-at-fire', 'postgres'],
];
const SEED = 7;
const WITHIN_MS = 300_000;

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

/** Runs a fault with the seed of these tests. */
function run(fault: Fault, backend: Backend, runs: number, profile?: ProfileName): Promise<FaultResult> {
  return runFault({
    fault,
    backend,
    runs,
    sessions: Math.ceil(runs / 2),
    random: createRandom(SEED),
    postgres,
    redis,
    signal: new AbortController().signal,
    logFile: undefined,
    profile,
  });
}

it.each(
  SHORT.filter(([, backend]) => backend === 'postgres' || isRedisHere).map(
    ([name, backend, over]) => [name, backend, over ?? 'no profile', over] as const,
  ),
)(
  '%s on %s over %s costs nothing',
  async (name, backend, _over, profile) => {
    const fault = FAULTS.find((each) => each.name === name);
    if (fault === undefined) throw new Error(`there is no fault ${name}`);
    const first = await run(fault, backend, 16, profile);
    // On a busy machine few runs may leave a moment unstruck, which says nothing: more of them strike it.
    const hasMissed = first.broken.length === 1 && first.broken[0] === 'missed';
    const { unknownTools: _allowed, ...findings } = (hasMissed ? await run(fault, backend, 64, profile) : first)
      .findings;
    expect(findings).toEqual(Object.fromEntries(Object.keys(findings).map((kind) => [kind, []])));
  },
  WITHIN_MS,
);

it(
  'a row that strikes nothing is not well',
  async () => {
    const result = await run(
      {
        name: 'kill-nowhere',
        about: 'the moment of the kills never comes',
        workers: 1,
        tapped: ['postgres'],
        onMember: (member, random, strikes) =>
          killAt(member, random, strikes, { line: 'postgres', marker: /baton_nothing/, on: 'request', nth: [1, 1] }),
      },
      'postgres',
      2,
    );
    expect(result.findings.missed).toEqual(['nothing was struck']);
    expect(toRow(result)).toMatchObject({ missed: 1, ok: false });
    expect(result.broken).toEqual(['missed']);
  },
  WITHIN_MS,
);

it(
  'a worker that ends by itself is a crash, and nothing else is lost with it',
  async () => {
    let started = 0;
    const result = await run(
      {
        name: 'exit',
        about: 'the first worker ends by itself in the middle of a call',
        workers: 1,
        environmentOf: () => (started++ === 0 ? { BATON_TEST_EXIT_AFTER_EFFECTS: '1' } : {}),
        hits: (world) => ({ ends: world.fleet.deaths() }),
      },
      'postgres',
      3,
    );
    expect(result.findings.crashes).toEqual([
      expect.stringMatching(/^worker .+ ended by itself: exit code 1: [\s\S]*nothing works any more$/),
    ]);
    expect(toRow(result)).toMatchObject({ crashes: 1, deaths: 1, ok: false });
    expect(result.broken).toEqual(['crashes']);
  },
  WITHIN_MS,
);
