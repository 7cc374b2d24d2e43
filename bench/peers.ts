import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { startDurable } from './chain/contestants.ts';
import { type Row, toRow } from './row.ts';
import type { Backend } from './services.ts';

const PEERS = ['dbos', 'restate', 'graphile-worker', 'pg-boss', 'langgraph'] as const;
const INSTALLED = new URL('node_modules/', import.meta.url);

const FULL = { sessions: 50, steps: 40, repetitions: 5 };
const SMALL = { sessions: 3, steps: 3, repetitions: 1 };
/** Durable steps per step of the peer. */
const GOAL_RATIO = 1;
const PEER_TIMEOUT_MS = 300_000;

const reportSchema = z.object({ stepsPerSecond: z.number().positive(), syncCommit: z.literal('on') });

type Size = typeof FULL;

/**
 * Steps per second of the chain through each peer and through the product. They take turns in fresh processes that have
 * the machine for themselves: one chain to warm up, one measured; a row has the peer's own rate and the product's as a
 * multiple of it.
 */
export async function benchPeers({ services, scale }: Bench): Promise<Row[]> {
  if (!existsSync(INSTALLED)) {
    console.error('peers: left out, because they are not installed. npm ci --prefix bench installs them.');
    return [];
  }
  const size = scale === 'full' ? FULL : SMALL;
  const own = new Map<Backend, number[]>(services.backends.map((backend) => [backend, []]));
  const theirs = new Map<string, number[]>(PEERS.map((peer) => [peer, []]));
  for (let round = 0; round < size.repetitions; round++) {
    for (const [backend, values] of own) values.push(await runDurable({ services, scale }, backend, size));
    for (const [peer, values] of theirs) values.push(await runPeer(peer, services.postgresUrl, size));
  }
  return [...own].flatMap(([backend, durable]) => [
    toRow({
      case: 'peers/durable',
      backend,
      unit: 'steps/s',
      timed: 'the chain through the product',
      values: durable,
    }),
    ...[...theirs].map(([peer, values]) => toPeerRow(peer, backend, values, durable)),
  ]);
}

function toPeerRow(peer: string, backend: Backend, values: readonly number[], durable: readonly number[]): Row {
  const named = { case: `peers/${peer}`, backend, unit: 'steps/s' };
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
async function runPeer(peer: string, databaseUrl: string, { sessions, steps }: Size): Promise<number> {
  const file = new URL(`peers/${peer}.ts`, import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [file, '--sessions', String(sessions), '--steps', String(steps)],
    { env: { ...process.env, DATABASE_URL: databaseUrl }, timeout: PEER_TIMEOUT_MS },
  );
  const last = stdout.trim().split('\n').at(-1) ?? '';
  return reportSchema.parse(JSON.parse(last)).stepsPerSecond;
}
