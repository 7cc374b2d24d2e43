import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { z } from 'zod';
import { rawId } from '../../faults/check/snapshot.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';

/** Just below the API's limit for one message. */
const LARGE_CHARS = 499_000;
const LARGE_MESSAGES = 300;
const SENDERS = 30;

/** The model has answered by then: the run only has to drain its inbox and end. */
const ENDS_WITHIN_MS = 45_000;
const STOPS_WITHIN_MS = 10_000;

const clearedSchema = z.object({ removed: z.array(z.string()) });

async function floodInboxes(attacker: Attacker): Promise<void> {
  let sessions = 0;
  await attacker.inLanes(1, () => floodInbox(attacker, `inbox ${sessions++}`));
}

async function floodInbox(attacker: Attacker, gate: string): Promise<void> {
  const { session, run } = await holdRun(attacker, gate);
  const text = 'lorem ipsum '.repeat(LARGE_CHARS).slice(0, LARGE_CHARS - 100);
  await attacker.pieces(8, LARGE_MESSAGES, () => attacker.send(session, text));
  await release(attacker, gate);
  await attacker.pieces(SENDERS, 4 * SENDERS, () => attacker.send(session, 'And another thing.'));
  const status = await attacker.ended(run, ENDS_WITHIN_MS);
  if (status === null) attacker.breach(`the run of the full inbox has not ended ${ENDS_WITHIN_MS} ms later`);
  await stopSession(attacker, session);
}

/** The owner of a flooded session must be able to stop it and to clear its queue. */
async function stopSession(attacker: Attacker, session: string): Promise<void> {
  const cancelled = await attacker.ask(`/v1/sessions/${session}/cancel`, { body: {}, withinMs: STOPS_WITHIN_MS });
  attacker.count(`cancels answered ${cancelled.status}`);
  if (cancelled.status >= 300 || cancelled.status === 0) {
    attacker.breach(`a cancel of the flooded session was answered ${cancelled.status} ${cancelled.text.slice(0, 200)}`);
  }
  const cleared = await attacker.ask(`/v1/sessions/${session}/queue`, { method: 'DELETE', withinMs: STOPS_WITHIN_MS });
  attacker.count(`queues cleared ${cleared.status}`);
  if (cleared.status !== 200) {
    return attacker.breach(`the flooded queue could not be cleared: ${cleared.status} ${cleared.text.slice(0, 200)}`);
  }
  attacker.forget(clearedSchema.parse(JSON.parse(cleared.text)).removed);
}

/** Locks the session's row as a slow statement or an aborted worker would, and sends messages to it. */
async function sendToLocked(attacker: Attacker): Promise<void> {
  const session = await attacker.createSession();
  const holder = new pg.Client({ connectionString: attacker.target.databaseUrl });
  await holder.connect();
  try {
    await holder.query('begin');
    await holder.query('select from sessions where id = $1 for update', [rawId(session)]);
    await attacker.inLanes(SENDERS, () => attacker.send(session, 'Is anybody there?'));
    await holder.query('rollback');
  } finally {
    await holder.end();
  }
}

const MAX_RUNS = 1_500;

/** The number is bounded, because every run has to end afterwards also on a slow machine. */
async function createMany(attacker: Attacker): Promise<void> {
  let runs = 0;
  await attacker.inLanes(16, async () => {
    const session = await attacker.createSession().catch(() => null);
    attacker.count(session === null ? 'sessions refused' : 'sessions created');
    if (session !== null && runs++ < MAX_RUNS) await attacker.send(session, 'Work.');
  });
}

const COMPLETIONS = 600;
const COMPLETIONS_AT_ONCE = 200;

/** Every second one is a stream. All are read to their end. */
async function completeMany(attacker: Attacker): Promise<void> {
  await attacker.pieces(COMPLETIONS_AT_ONCE, COMPLETIONS, async (no) => {
    const messages = [{ role: 'user', content: `Question ${no}` }];
    const body = { model: 'attacker', stream: no % 2 === 0, messages };
    const { status } = await attacker.ask('/v1/chat/completions', { body, withinMs: ENDS_WITHIN_MS });
    attacker.count(`completions answered ${status}`);
  });
}

const TOLD_MESSAGES = 300;

/** Each message names its own receiver, at a port where no server listens. */
async function sendWithWebhooks(attacker: Attacker): Promise<void> {
  const session = await attacker.createSession();
  await attacker.pieces(SENDERS, TOLD_MESSAGES, async (no) => {
    const webhook = { url: `http://127.0.0.1:9/told/${no}`, secret: 's'.repeat(32) };
    await attacker.send(session, 'Tell me.', { webhook });
  });
  await attacker.inLanes(1, () => attacker.ask(`/v1/sessions/${session}`));
}

/** As docs/production.md recommends for two cores that also serve the model and the stores. */
const ON_TWO_CORES = {
  BATON_TENANT_CONCURRENCY: '4',
  BATON_TENANT_REQUESTS: '2',
  BATON_DATABASE_CONNECTIONS: '4',
};

async function guessKeys(attacker: Attacker): Promise<void> {
  await attacker.inLanes(100, async () => {
    const authorization = `Bearer bat_${crypto.randomUUID().replaceAll('-', '')}`;
    const { status } = await attacker.ask('/v1/sessions', { headers: { authorization } });
    attacker.count(`wrong keys answered ${status}`);
    if (status === 200) attacker.breach('a key that was made up was let in');
  });
}

const UPLOAD_BYTES = 1_048_576;
const MAX_FILES = 16;
const UPLOADERS = 4;

/** Each file has other bytes, because equal bytes are stored once. */
async function upload(attacker: Attacker): Promise<void> {
  let taken = 0;
  let wasRefused = false;
  const uploadOne = async (): Promise<void> => {
    const body = new Uint8Array(randomBytes(UPLOAD_BYTES));
    const headers = { 'content-type': 'application/octet-stream' };
    const { status } = await attacker.ask('/v1/blobs', { body, headers });
    attacker.count(`files of 1 MiB answered ${status}`);
    wasRefused ||= status === 429;
    if (status < 300 && status > 0) taken++;
  };
  await attacker.inLanes(UPLOADERS, uploadOne);
  // A slow machine has not reached the limit by then.
  for (let more = 0; !wasRefused && more <= MAX_FILES; more++) await uploadOne();
  // Concurrent uploads may read the same sum.
  if (!wasRefused || taken > MAX_FILES + UPLOADERS) {
    attacker.breach(`${taken} files were stored for a tenant that may have ${MAX_FILES}`);
  }
}

/** One tenant sends too much. */
export const FLOODS: readonly Row[] = [
  {
    name: 'inbox-flood',
    about: '300 messages of 499 kB to one session at work, then 30 senders to it',
    attack: attackBy(floodInboxes),
  },
  { name: 'locked-session', about: '30 senders to a session whose row is locked', attack: attackBy(sendToLocked) },
  {
    name: 'many-sessions',
    about: 'sessions without end by 16 connections, with a run in 1 500 of them at most',
    attack: attackBy(createMany),
    setUp: () => ({ settings: ON_TWO_CORES }),
  },
  {
    name: 'many-completions',
    about: '600 completions, 200 at once, half of them streams',
    attack: attackBy(completeMany),
    // Other tenants send fifty requests a second, which are not to wait in lines of their own.
    setUp: () => ({
      settings: { ...ON_TWO_CORES, BATON_TENANT_REQUESTS: '6', BATON_DATABASE_CONNECTIONS: '8' },
    }),
  },
  {
    name: 'messages-with-webhooks',
    about: '300 messages by 30 senders, each with a receiver of its own where nobody listens',
    attack: attackBy(sendWithWebhooks),
    setUp: () => ({ settings: { ...ON_TWO_CORES, BATON_WEBHOOKS_ALLOWED_HOSTS: '127.0.0.1' } }),
  },
  {
    name: 'uploads',
    about: 'files of 1 MiB by 4 connections, beyond what may be stored for the tenant',
    setUp: () => ({ settings: { BATON_TENANT_STORED_BYTES: String(MAX_FILES * UPLOAD_BYTES) } }),
    attack: attackBy(upload),
  },
  { name: 'wrong-keys', about: '100 connections that try keys', attack: attackBy(guessKeys) },
];
