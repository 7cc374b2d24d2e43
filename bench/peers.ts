import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { startDurable } from './chain/contestants.ts';
import { type Row, toRow } from './row.ts';
import type { Backend } from './services.ts';

const PEERS = ['dbos', 'restate', 'graphile-worker', 'pg-boss', 'langgraph', 'openworkflow', 'workflow'] as const;
const INSTALLED = new URL('node_modules/', import.meta.url);

const FULL = { sessions: 50, steps: 40, repetitions: 5 };
const SMALL = { sessions: 3, steps: 3, repetitions: 1 };
/** Durable steps per step of the peer. */
const GOAL_RATIO = 1;
/** A chain that takes longer than this, with the one before it, is an error. */
const PEER_TIMEOUT_MS = 600_000;

const reportSchema = z.object({ stepsPerSecond: z.number().positive(), syncCommit: z.literal('on') });

type Size = typeof FULL;

/** `peers`: a step is durable as a whole. `peers-equal`: it is durable in the same parts as in the product. */
const TABLES = [
  { table: 'peers', options: [] },
  { table: 'peers-equal', options: ['--equal'] },
] as const;

type Contest = Readonly<{ table: string; peer: string; options: readonly string[] }>;

/**
 * Steps per second of the chain through each peer and through the product. They take turns in fresh processes that have
 * the machine for themselves: one chain to warm up, one measured; a row has the peer's own rate and the product's as a
 * multiple of it. BENCH_PEERS names some of the peers, with commas between. A peer that fails has no row.
 */
export async function benchPeers({ services, scale }: Bench): Promise<Row[]> {
  if (!existsSync(INSTALLED)) {
    console.error('peers: left out, because they are not installed. npm ci --prefix bench installs them.');
    return [];
  }
  const size = scale === 'full' ? FULL : SMALL;
  const own = new Map<Backend, number[]>(services.backends.map((backend) => [backend, []]));
  const theirs = new Map<Contest, number[]>(contests().map((contest) => [contest, []]));
  for (let round = 0; round < size.repetitions; round++) {
    for (const [backend, values] of own) values.push(await runDurable({ services, scale }, backend, size));
    for (const [contest, values] of theirs) {
      try {
        values.push(await runPeer(contest, services.postgresUrl, size));
      } catch (error) {
        // The others go on: a contestant without a value for each round cannot be compared pair by pair.
        theirs.delete(contest);
        console.error(`${contest.table}/${contest.peer}: left out, because it failed:`, error);
      }
    }
  }
  return [...own].flatMap(([backend, durable]) => [
    toRow({
      case: 'peers/durable',
      backend,
      unit: 'steps/s',
      timed: 'the chain through the product',
      values: durable,
    }),
    ...[...theirs].map(([contest, values]) => toPeerRow(contest, backend, values, durable)),
  ]);
}

function contests(): Contest[] {
  const named = process.env['BENCH_PEERS']?.split(',');
  const peers = PEERS.filter((peer) => named?.includes(peer) ?? true);
  return TABLES.flatMap(({ table, options }) => peers.map((peer) => ({ table, peer, options })));
}

function toPeerRow(
  { table, peer }: Contest,
  backend: Backend,
  values: readonly number[],
  durable: readonly number[],
): Row {
  const named = { case: `${table}/${peer}`, backend, unit: 'steps/s' };
  const { ratio, goal, goalIs, ok } = toRow({
    ...named,
    timed: '',
    values: durable,
    reference: values,
    goal: { atLeast: GOAL_RATIO },
  });
  return {
    ...toRow({ ...named, timed: "the peer's steps/s; the ratio is the product's to them", values }),
    ratio,
    goal,
    goalIs,
    ok,
  };
}

async function runDurable({ services }: Bench, backend: Backend, { sessions, steps }: Size): Promise<number> {
  await using durable = await startDurable({ services, backend, concurrency: sessions });
  await durable.run(sessions, { steps });
  const { wallMs } = await durable.run(sessions, { steps });
  return (sessions * steps * 1_000) / wallMs;
}

/** Refuses the report of a peer that does not sync its writes: the comparison would be unfair. */
async function runPeer({ peer, options }: Contest, databaseUrl: string, { sessions, steps }: Size): Promise<number> {
  const file = new URL(`peers/${peer}.ts`, import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [file, '--sessions', String(sessions), '--steps', String(steps), ...options],
    { env: { ...process.env, DATABASE_URL: databaseUrl }, timeout: PEER_TIMEOUT_MS },
  );
  const last = stdout.trim().split('\n').at(-1) ?? '';
  return reportSchema.parse(JSON.parse(last)).stepsPerSecond;
}
