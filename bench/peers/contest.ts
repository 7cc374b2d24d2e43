import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { dropDatabase } from '../../test/support/drop-database.ts';

const DEFAULT_URL = 'postgres://postgres@127.0.0.1:5432/postgres';

/**
 * `own`: a step is durable as a whole, as at the beginning of the peer's documentation. `equal`: the product's promises
 * for a step, so the response is durable before its calls run, a completed call never runs again, and text is durable
 * within 250 ms.
 */
export type Guarantees = 'own' | 'equal';

/** The setting that a peer gets before it starts. Work deferred on `stack` runs at the peer's end, the last first. */
export type Setting = Readonly<{
  databaseUrl: string;
  concurrency: number;
  guarantees: Guarantees;
  stack: AsyncDisposableStack;
}>;

export type Peer = Readonly<{
  /** Runs these sessions side by side, with this many steps each; resolves when the last has ended and is durable. */
  run: (sessions: readonly string[], steps: number) => Promise<void>;
  /**
   * The number of results of the sessions with this prefix, read from the store that has them: results of steps, or at
   * equal guarantees of model calls and tool calls.
   */
  countStored: (prefix: string) => Promise<number>;
  /** The number of their pieces of text, at equal guarantees. */
  countTexts: (prefix: string) => Promise<number>;
  /** `on`: data that counts as stored is on the disk. */
  syncCommit: string;
}>;

/**
 * Runs a peer in its process: a database of its own, a round to get warm, a round against the clock, and a line of JSON
 * on stdout. Steps that its store lacks afterwards are an error, so that no peer is fast by keeping nothing.
 */
export async function contest(name: string, start: (setting: Setting) => Promise<Peer>): Promise<void> {
  await compete(name, start);
  // Some peers cannot be closed, such as the endpoint of Restate's SDK.
  process.exit(0);
}

async function compete(name: string, start: (setting: Setting) => Promise<Peer>): Promise<void> {
  const { values } = parseArgs({
    options: { sessions: { type: 'string' }, steps: { type: 'string' }, equal: { type: 'boolean' } },
  });
  const sessions = Number(values.sessions ?? 50);
  const steps = Number(values.steps ?? 40);
  const guarantees = values.equal === true ? 'equal' : 'own';
  globalThis.AI_SDK_LOG_WARNINGS = false;
  await using stack = new AsyncDisposableStack();
  const databaseUrl = await createDatabase(stack);
  const peer = await start({ databaseUrl, concurrency: sessions, guarantees, stack });
  const idsOf = (round: string): string[] => Array.from({ length: sessions }, (_, at) => `${round}-${at}`);
  await peer.run(idsOf('warm'), steps);
  const startedAt = performance.now();
  await peer.run(idsOf('timed'), steps);
  const tookMs = performance.now() - startedAt;
  await checkStored(name, peer, guarantees, sessions, steps);
  const stepsPerSecond = (sessions * steps * 1_000) / tookMs;
  console.log(JSON.stringify({ peer: name, stepsPerSecond, sessions, steps, syncCommit: peer.syncCommit }));
}

/** @throws Error if a result or a text of the timed sessions is not stored */
async function checkStored(
  name: string,
  peer: Peer,
  guarantees: Guarantees,
  sessions: number,
  steps: number,
): Promise<void> {
  // The last answer of a session has no call.
  const expected = sessions * (guarantees === 'equal' ? 2 * steps - 1 : steps);
  const stored = await peer.countStored('timed-');
  if (stored !== expected) throw new Error(`${name} has stored ${stored} of ${expected} results`);
  if (guarantees === 'own') return;
  const texts = await peer.countTexts('timed-');
  if (texts < sessions * steps) throw new Error(`${name} has stored ${texts} texts of ${sessions * steps} answers`);
}

/** Postgres's own setting `synchronous_commit`: `on` or `off`; also `off` if `fsync` is off. */
export async function readSyncCommit(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ sync: string; fsync: string }>(
    "select current_setting('synchronous_commit') as sync, current_setting('fsync') as fsync",
  );
  return rows[0]?.fsync === 'on' ? rows[0].sync : 'off';
}

/** A pool that ends with the peer. Idle connections fail when the database goes, and these errors are ignored. */
export function openPool(stack: AsyncDisposableStack, connectionString: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString, max });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  stack.defer(() => pool.end());
  return pool;
}

async function createDatabase(stack: AsyncDisposableStack): Promise<string> {
  const adminUrl = process.env['DATABASE_URL'] ?? DEFAULT_URL;
  const name = `baton_peer_${randomBytes(6).toString('hex')}`;
  await runAsAdmin(adminUrl, `create database ${name}`);
  stack.defer(() => dropDatabase((statement) => runAsAdmin(adminUrl, statement), name));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

async function runAsAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
