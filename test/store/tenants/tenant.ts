import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { PROGRAM } from '../../../src/domain/declared.ts';
import { planNext } from '../../../src/domain/run/next-step.ts';
import { NO_USAGE } from '../../../src/domain/usage.ts';
import { WEBHOOK_EVENTS } from '../../../src/domain/webhooks/webhook.ts';
import { newId } from '../../../src/platform/new-id.ts';
import { createApiKey } from '../../../src/store/around/api-keys.ts';
import { appendAudit } from '../../../src/store/around/audit.ts';
import { answerOnce } from '../../../src/store/around/idempotency.ts';
import { createSchedule, type NewSchedule, noteFire } from '../../../src/store/around/schedules.ts';
import { createWebhook } from '../../../src/store/around/webhooks.ts';
import { answerCall } from '../../../src/store/changes/call-answers.ts';
import type { NewInboxMessage } from '../../../src/store/changes/inbox.ts';
import { requestMaintenance } from '../../../src/store/changes/maintenance.ts';
import { revertSession } from '../../../src/store/changes/revert.ts';
import type { Db } from '../../../src/store/db/database.ts';
import { storeAnswer, storeQuestion } from '../../../src/store/session/conversations.ts';
import { insertSession } from '../../../src/store/session/sessions.ts';
import { attachBlobs, bytesBlob, textBlob } from '../../../src/store/transcript/blobs.ts';
import type { Fence } from '../../../src/store/work/claims.ts';
import { beginCompaction } from '../../../src/store/work/maintenance.ts';
import { appendChunks, finishStep, moveCalls, writeResponse } from '../../../src/store/work/step-writes.ts';
import { answerStep, askStep, type Claimed, claimJob, failStep } from '../../http/play-worker.ts';
import { acceptMessage } from '../../support/unlimited.ts';
import { finishCleanUp } from '../race.ts';

/** Names and bytes that both tenants share: a client's key, a request's key, a conversation, bytes. */
export const SHARED = {
  externalKey: 'conversation-1',
  route: 'POST /v1/sessions',
  key: 'key-1',
  questionHash: Buffer.from('question'),
  answerHash: Buffer.from('answer'),
  bytes: Buffer.from('the same bytes'),
} as const;

/** The ids of everything that a tenant has, for calls to be made up of. */
export type Tenant = Readonly<{
  id: string;
  /** A word in every text of the tenant, and nowhere else. */
  secret: string;
  requestSha256: Buffer;
  sessions: readonly string[];
  runs: readonly string[];
  messages: readonly string[];
  calls: readonly Readonly<{ runId: string; messageId: string; index: number }>[];
  blobs: readonly string[];
  schedules: readonly string[];
  webhooks: readonly string[];
  deliveries: readonly string[];
  /** Claims that are held, each with its session and open message. */
  claims: readonly Readonly<{ fence: Fence; sessionId: string; messageId: string }>[];
}>;

/**
 * A tenant with something of every noun: sessions that are idle, at work, waiting, failed, tidied up and held back.
 * @param messageId the id of the next message, which may be that of another tenant's message, too
 */
export async function fillTenant(db: Db, id: string, secret: string, messageId: () => string): Promise<Tenant> {
  const base = { db, id, secret, messageId };
  await addWebhooks(base);
  await addSchedules(base);
  const worked = await playHistory(base);
  const waiting = await playWaiting(base);
  const { claims, call } = await playBusy(base);
  const streaming = await playStreaming(base);
  await playCompacted(base);
  await playReverted(base);
  await playFailure(base);
  await playConversations(base);
  await playThrottled(base);
  await keepRecords(base);
  // The busy run is that of a child of the first session.
  await sql`
    update sessions set root_session_id = parent.session_id, parent_session_id = parent.session_id, depth = 1
    from runs as parent, runs as child
    where parent.id = ${worked.runId} and child.id = ${call.runId} and sessions.id = child.session_id`.execute(db);
  // About half of a quota: both tenants together would use it up.
  const output = { schema: { type: 'object' } };
  await sql`
    update runs set input_tokens = 600, output_format = ${JSON.stringify(output)} where id = ${worked.runId}`.execute(
    db,
  );
  const idsOf = async (
    table: 'sessions' | 'runs' | 'messages' | 'blobs' | 'webhooks' | 'webhook_deliveries' | 'schedules',
  ) =>
    (await db.selectFrom(table).select('id').where('tenant_id', '=', id).orderBy('id').execute()).map((row) => row.id);
  const inbox = await db.selectFrom('inbox').select('id').where('tenant_id', '=', id).orderBy('seq').execute();
  return {
    id,
    secret,
    requestSha256: hashOf(id),
    sessions: await idsOf('sessions'),
    runs: await idsOf('runs'),
    messages: [...(await idsOf('messages')), ...inbox.map((row) => row.id)],
    calls: [worked, call, ...waiting],
    blobs: await idsOf('blobs'),
    schedules: await idsOf('schedules'),
    webhooks: await idsOf('webhooks'),
    deliveries: await idsOf('webhook_deliveries'),
    claims: [...claims, streaming],
  };
}

/** Webhooks that hear of the runs which are played afterwards. */
async function addWebhooks({ db, id: tenantId, secret }: Base): Promise<void> {
  for (const name of ['first', 'second']) {
    const webhook = { id: newId(), tenantId, url: `https://hooks.example.com/${name}-${secret}`, agent: null };
    const declared = { ...(name === 'first' && { key: SHARED.externalKey }), declaredBy: PROGRAM };
    await db
      .transaction()
      .execute((tx) => createWebhook(tx, { ...webhook, ...declared, secret, events: WEBHOOK_EVENTS }));
  }
}

export const scheduleOf = (tenantId: string, secret: string): NewSchedule => ({
  id: newId(),
  tenantId,
  agent_name: 'tester',
  title: secret,
  cron: '0 9 * * *',
  timezone: 'UTC',
  content: secret,
  session_kind: 'new',
  overlap: 'skip',
  catchup: 'none',
  jitter_ms: 0,
  next: null,
});

/** Schedules, each with a fire. */
async function addSchedules({ db, id, secret }: Base): Promise<void> {
  for (let left = 2; left > 0; left--) {
    await db.transaction().execute(async (tx) => {
      const declared = { ...(left === 2 && { key: SHARED.externalKey }), declaredBy: PROGRAM };
      const schedule = await createSchedule(tx, { ...scheduleOf(id, secret), ...declared });
      await noteFire(tx, schedule, { fireAt: new Date(), result: 'skipped' });
    });
  }
}

type Base = Readonly<{ db: Db; id: string; secret: string; messageId: () => string }>;

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** An agent whose copy in the session says the secret, with tools of a server. */
export const agentOf = (secret: string) => ({
  name: 'tester',
  model: 'test/test',
  instructions: secret,
  pinnedTools: { docs: { hash: 'old', tools: [] } },
});

async function openSession({ db, id, secret }: Base, externalKey?: string): Promise<string> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: agentOf(secret) };
  const named = { title: `Title ${secret}`, metadata: { customer: secret } };
  const session = { id: newId(), tenantId: id, ...agent, ...named };
  await insertSession(db, externalKey === undefined ? session : { ...session, externalKey });
  return session.id;
}

function send(
  { db, id, secret, messageId }: Base,
  sessionId: string,
  { text, ...more }: Readonly<{ text: string }> & Partial<NewInboxMessage>,
) {
  const content = [{ type: 'text', text: `${text} ${secret}` }] as const;
  return acceptMessage(db, { tenantId: id, sessionId, messageId: messageId(), content, runId: newId(), ...more });
}

async function begin(base: Base, sessionId: string, text: string): Promise<Claimed> {
  return claimJob(base.db, (await send(base, sessionId, { text })).job ?? undefined, base.messageId());
}

/** A transcript with a call whose output is kept whole, and files. */
async function playHistory(base: Base) {
  const { db, secret } = base;
  const sessionId = await openSession(base, SHARED.externalKey);
  const claimed = await begin(base, sessionId, 'Go');
  const { fence, messageId } = claimed;
  await writeResponse(db, fence, { messageId, parts: [callOf(base)], finishReason: 'tool-calls' }, []);
  const output = { type: 'text', value: `begins ${secret}` } as const;
  const cut = { originalTokens: 9, blob: textBlob(newId(), `the whole of ${secret}`) };
  await moveCalls(db, fence, [{ messageId, index: 0, from: ['pending'], to: 'completed', output, cut, events: [] }]);
  const files = [Buffer.from(SHARED.bytes), Buffer.from(secret)];
  await attachBlobs(
    db,
    { sessionId },
    files.map((bytes) => bytesBlob(newId(), 'text/plain', bytes)),
  );
  await endRun(db, claimed);
  return { runId: fence.runId, messageId, index: 0 };
}

const callOf = ({ secret }: Base) =>
  ({ type: 'tool', toolCallId: 'c1', toolName: 'look', input: { secret }, state: 'pending' }) as const;

/** Ends the step, and with it the run, as it is. */
async function endRun(db: Db, { fence, job }: Claimed): Promise<void> {
  const { runId } = fence;
  const plan = { runId, stepNo: job.no, stepsBefore: 0, maxSteps: 100, toolCalls: 0 };
  const next = planNext({ ...plan, finishReason: 'stop', result: { kind: 'answered' } });
  const rest = { moves: [], events: [], usage: NO_USAGE, costUsd: 0, steps: 1, nextRunId: newId() } as const;
  if ((await finishStep(db, fence, { ...rest, next })) === null) throw new Error('the step was fenced');
}

/** A run that waits for an approval and an output, and has been given another output. */
async function playWaiting(base: Base) {
  const claimed = await begin(base, await openSession(base), 'Ask');
  const asked = (['approval', 'output', 'output'] as const).map((kind) => ({ kind, toolName: 'deploy' }));
  await askStep(base.db, claimed, asked, 3_600_000);
  const { messageId, fence } = claimed;
  const calls = asked.map((_, index) => ({ runId: fence.runId, messageId, index }));
  const output = { type: 'text', value: base.secret } as const;
  await answerCall(base.db, { tenantId: base.id, runId: fence.runId, messageId, index: 2 }, { kind: 'output', output });
  return calls;
}

/**
 * A step at work with a call that is to run and a message that waits for its end, and a compaction that is under way.
 */
async function playBusy(base: Base) {
  const sessionId = await openSession(base);
  const { fence, messageId } = await begin(base, sessionId, 'Work');
  await writeResponse(base.db, fence, { messageId, parts: [callOf(base)], finishReason: 'tool-calls' }, []);
  await send(base, sessionId, { text: 'later', delivery: 'followup' });
  const claims = [{ fence, sessionId, messageId }, await beginMaintenance(base)];
  return { claims, call: { runId: fence.runId, messageId, index: 0 } };
}

/** A step at work that has taken up two messages together and streams its answer. */
async function playStreaming(base: Base) {
  const sessionId = await openSession(base);
  const { job } = await send(base, sessionId, { text: 'one' });
  await send(base, sessionId, { text: 'two' });
  const { fence, messageId } = await claimJob(base.db, job ?? undefined, base.messageId());
  const chunk = { charOffset: 0, partIndex: 0, type: 'text', text: base.secret } as const;
  await appendChunks(base.db, [{ fence, messageId, chunks: [chunk] }]);
  return { fence, sessionId, messageId };
}

async function beginMaintenance(base: Base) {
  const { db, id } = base;
  const sessionId = await openSession(base);
  await answerStep(db, await begin(base, sessionId, 'Answer'), `Said ${base.secret}.`);
  const asked = { tenantId: id, sessionId, kind: 'compaction', runId: newId() } as const;
  const claimed = await claimJob(db, (await requestMaintenance(db, asked)).job ?? undefined, base.messageId());
  const { fence, messageId } = claimed;
  const compactionId = newId();
  const round = { id: compactionId, strategy: 'manual', reason: 'manual', fromSeq: 1, uptoSeq: 2 } as const;
  await beginCompaction(db, fence, { ...round, tokensBefore: 100, modelLimit: 200 });
  return { claimed, fence, sessionId, messageId, compactionId };
}

async function playCompacted(base: Base): Promise<void> {
  const { claimed, compactionId } = await beginMaintenance(base);
  const summary = { messageId: base.messageId(), model: null, parts: [{ type: 'text', text: base.secret }] } as const;
  await finishCleanUp(base.db, claimed, {
    id: compactionId,
    attempts: 1,
    costUsd: 0,
    usage: NO_USAGE,
    state: 'completed',
    tokensAfter: 10,
    summary,
    viewStartSeq: 3,
  });
}

/** A session whose answer was taken out again. */
async function playReverted(base: Base): Promise<void> {
  const { db, id: tenantId } = base;
  const sessionId = await openSession(base);
  await answerStep(db, await begin(base, sessionId, 'Go'), base.secret);
  const question = db.selectFrom('messages').select('id').where('session_id', '=', sessionId).where('seq', '=', 1);
  const { id: messageId } = await question.executeTakeFirstOrThrow();
  await db.transaction().execute((tx) => revertSession(tx, { tenantId, sessionId, messageId }));
}

/** A run that failed, and a message that it has left behind. */
async function playFailure(base: Base): Promise<void> {
  const sessionId = await openSession(base);
  const claimed = await begin(base, sessionId, 'Fail');
  await send(base, sessionId, { text: 'behind' });
  await failStep(base.db, claimed, { code: 'auth', message: base.secret });
}

/** Two sessions of clients that send their whole conversation: one client has its answer, one waits for it. */
async function playConversations(base: Base): Promise<void> {
  const { questionHash, answerHash } = SHARED;
  for (const isAnswered of [true, false]) {
    const sessionId = await openSession(base);
    await send(base, sessionId, { text: 'asked' });
    const question = { questionHash, keptUntil: null };
    await base.db.transaction().execute((tx) => storeQuestion(tx, sessionId, question));
    if (isAnswered) await storeAnswer(base.db, { tenantId: base.id, sessionId }, { questionHash, answerHash });
  }
}

/** A run that waits for the tenant's other runs. */
async function playThrottled(base: Base): Promise<void> {
  const { runId } = await send(base, await openSession(base), { text: 'held back' });
  await sql`update runs set throttled_at = clock_timestamp() where id = ${runId}`.execute(base.db);
}

async function keepRecords({ db, id, secret }: Base): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await createApiKey(tx, { id: newId(), tenantId: id, name: secret, scopes: ['read'], expiresAt: null });
  });
  await appendAudit(db, { tenantId: id, keyId: null, action: 'session:delete', target: secret });
  const { route, key } = SHARED;
  const body = { secret };
  await answerOnce(db, { tenantId: id, route, key, requestSha256: hashOf(id) }, async () => ({ status: 200, body }));
}
