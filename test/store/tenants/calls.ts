import { NoResultError, sql } from 'kysely';
import { NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { PROGRAM } from '../../../src/domain/declared.ts';
import { formatId } from '../../../src/domain/ids.ts';
import { planAfterMaintenance } from '../../../src/domain/run/after-maintenance.ts';
import { NO_USAGE } from '../../../src/domain/usage.ts';
import { newId } from '../../../src/platform/new-id.ts';
import * as apiKeys from '../../../src/store/around/api-keys.ts';
import * as audit from '../../../src/store/around/audit.ts';
import { answerOnce } from '../../../src/store/around/idempotency.ts';
import * as schedules from '../../../src/store/around/schedules.ts';
import * as webhookDeliveries from '../../../src/store/around/webhook-deliveries.ts';
import * as webhooks from '../../../src/store/around/webhooks.ts';
import * as callAnswers from '../../../src/store/changes/call-answers.ts';
import * as cancels from '../../../src/store/changes/cancels.ts';
import { findFinishedSeq, forkSession } from '../../../src/store/changes/fork.ts';
import * as inbox from '../../../src/store/changes/inbox.ts';
import { requestMaintenance } from '../../../src/store/changes/maintenance.ts';
import { revertSession, unrevertSession } from '../../../src/store/changes/revert.ts';
import { switchAgent } from '../../../src/store/changes/switch-agent.ts';
import * as waiting from '../../../src/store/changes/waiting.ts';
import { type Db, inTransaction, type Tx } from '../../../src/store/db/database.ts';
import { readActivity } from '../../../src/store/lists/activity.ts';
import { readFailedRuns } from '../../../src/store/lists/failed-runs.ts';
import { findMessages, tenantWord } from '../../../src/store/lists/find-messages.ts';
import * as liveSnapshot from '../../../src/store/lists/live-snapshot.ts';
import { readHits } from '../../../src/store/lists/message-hits.ts';
import { readQuestion } from '../../../src/store/lists/open-question.ts';
import { listOperatorRuns } from '../../../src/store/lists/operator-runs.ts';
import { searchSessions } from '../../../src/store/lists/session-search.ts';
import { readStepLog } from '../../../src/store/lists/step-log.ts';
import { readUsage } from '../../../src/store/lists/usage.ts';
import { listWaitingCalls } from '../../../src/store/lists/waiting-calls.ts';
import * as askingRuns from '../../../src/store/session/asking-runs.ts';
import * as context from '../../../src/store/session/context.ts';
import * as conversations from '../../../src/store/session/conversations.ts';
import { findMessageRun } from '../../../src/store/session/message-run.ts';
import { NO_QUOTA, readStoredBytes, refuseOverQuota, refuseOverStorage } from '../../../src/store/session/quota.ts';
import { readOutputFormat, readRunOutput } from '../../../src/store/session/run-output.ts';
import * as runs from '../../../src/store/session/runs.ts';
import * as sessions from '../../../src/store/session/sessions.ts';
import * as waitingMessages from '../../../src/store/session/waiting-messages.ts';
import * as blobs from '../../../src/store/transcript/blobs.ts';
import { readChunks, readStreamedParts } from '../../../src/store/transcript/chunks.ts';
import * as toolOutputs from '../../../src/store/transcript/earlier-content.ts';
import * as events from '../../../src/store/transcript/events.ts';
import * as inputEnd from '../../../src/store/transcript/input-end.ts';
import { refuseUnknownCall } from '../../../src/store/transcript/known-calls.ts';
import * as media from '../../../src/store/transcript/media.ts';
import * as messages from '../../../src/store/transcript/messages.ts';
import { changeCall, readCallAnswers } from '../../../src/store/transcript/open-calls.ts';
import { findOutputMatches } from '../../../src/store/transcript/output-matches.ts';
import { readStepRequest } from '../../../src/store/transcript/step-request.ts';
import { readWritten } from '../../../src/store/transcript/written-messages.ts';
import type { Fence } from '../../../src/store/work/claims.ts';
import * as claims from '../../../src/store/work/claims.ts';
import * as maintenance from '../../../src/store/work/maintenance.ts';
import { noteOutsideWork } from '../../../src/store/work/outside-work.ts';
import * as pinnedTools from '../../../src/store/work/pinned-tools.ts';
import { noteProviderResponse } from '../../../src/store/work/provider-responses.ts';
import { failClaimedRun } from '../../../src/store/work/run-failure.ts';
import * as stepWrites from '../../../src/store/work/step-writes.ts';
import * as admission from '../../../src/store/work/throttling.ts';
import { acceptMessage, changeWaiting, resumeSession } from '../../support/unlimited.ts';
import { agentOf, SHARED, scheduleOf, type Tenant } from './tenant.ts';

/** Ids for a call: of the caller, or of the other tenant. */
export type Draw = Readonly<{
  session: () => string;
  run: () => string;
  message: () => string;
  call: () => Readonly<{ runId: string; messageId: string; index: number }>;
  blob: () => string;
  schedule: () => string;
  webhook: () => string;
  delivery: () => string;
  /** A claim of the caller. A claim's id is never drawn from the other tenant, because only its worker knows it. */
  claim: () => Tenant['claims'][number];
  number: (upto: number) => number;
}>;

type Call = (db: Db, me: Tenant, draw: Draw) => Promise<unknown>;

const DONE = 'done';
const done = async (work: Promise<unknown>): Promise<typeof DONE> => work.then(() => DONE);
const within = <T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> => inTransaction(db, work);
const words = (text: string) => [{ type: 'text', text }] as const;
const blobFile = (id: string) =>
  ({ type: 'file', mediaType: 'text/plain', url: `@blob:${formatId('blob', id)}` }) as const;
const dataFile = (text: string) => ({ type: 'file', mediaType: 'text/plain', url: `data:text/plain,${text}` }) as const;
const owner = (me: Tenant, draw: Draw) => ({ tenantId: me.id, sessionId: draw.session() });
const anyFence = (draw: Draw): Fence => ({ ...draw.claim().fence, runId: draw.run() });
const kept = ({ secret }: Tenant) => ({ name: 'other', version: '2', snapshot: agentOf(secret), overrides: {} });
const output = (me: Tenant) => ({ kind: 'output', output: { type: 'text', value: me.secret } }) as const;

/** Reads by functions that take the tenant: they find nothing of another one. */
export const READS: Readonly<Record<string, Call>> = {
  listAudit: (db, me) => audit.listAudit(db, { tenantId: me.id, limit: 100 }),
  findBlobHash: (db, me, draw) => blobs.findBlobHash(db, me.id, draw.blob()),
  readBlobBytes: (db, me, draw) => blobs.readBlobBytes(db, me.id, draw.blob()),
  readBlobInfo: (db, me, draw) => blobs.readBlobInfo(db, me.id, draw.blob()),
  readMeteredContext: (db, me, draw) => context.readMeteredContext(db, me.id, draw.session()),
  readContext: (db, me, draw) => context.readContext(db, me.id, draw.session()),
  readCompactionSums: (db, me, draw) => context.readCompactionSums(db, me.id, draw.session()),
  listCompactions: (db, me, draw) => context.listCompactions(db, me.id, draw.session(), 10),
  findSessionOfMessage: (db, me, draw) => conversations.findSessionOfMessage(db, me.id, draw.message()),
  readAgentBase: (db, me, draw) => conversations.readAgentBase(db, me.id, draw.session()),
  findTakenUpSeq: (db, me, draw) => inputEnd.findTakenUpSeq(db, { ...owner(me, draw), messageId: draw.message() }),
  findMessageSeq: (db, me, draw) => inputEnd.findMessageSeq(db, { ...owner(me, draw), messageId: draw.message() }),
  hasSeveralMessages: (db, me, draw) => inputEnd.hasSeveralMessages(db, owner(me, draw)),
  findStepSeqAfter: (db, me, draw) =>
    inputEnd.findStepSeqAfter(db, { ...owner(me, draw), runId: draw.run(), afterSeq: 0 }),
  waitingItem: (db, me, draw) => waitingMessages.waitingItem(db, { ...owner(me, draw), messageId: draw.message() }),
  findMessageRun: (db, me, draw) => findMessageRun(db, me.id, draw.message()),
  listKeysOfTenant: (db, me) => apiKeys.listKeysOfTenant(db, { tenantId: me.id, limit: 100 }),
  findSessionOfQueued: (db, me, draw) => conversations.findSessionOfQueued(db, me.id, draw.message()),
  readEvents: (db, me, draw) => events.readEvents(db, me.id, draw.session(), { afterSeq: 0, limit: 1_000 }),
  readEventPage: async (db, me, draw) =>
    (await events.readEventPage(db, me.id, draw.session(), { afterSeq: 0, limit: 1_000 })).events,
  findLastRunEvent: (db, me, draw) =>
    events.findLastRunEvent(db, me.id, { sessionId: draw.session(), runId: draw.run() }, 'run:queued'),
  readLiveSnapshot: (db, me, draw) => liveSnapshot.readLiveSnapshot(db, me.id, draw.session()),
  listMessages: (db, me, draw) => messages.listMessages(db, me.id, draw.session(), { afterSeq: 0, limit: 100 }),
  listNewestMessages: (db, me, draw) => messages.listNewestMessages(db, me.id, draw.session(), { limit: 100 }),
  hasMessagesAfter: (db, me, draw) => messages.hasMessagesAfter(db, { ...owner(me, draw), seq: 0 }),
  hasMessagesBefore: (db, me, draw) => messages.hasMessagesBefore(db, { ...owner(me, draw), seq: 1_000 }),
  readMessageParts: (db, me, draw) =>
    messages.readMessageParts(db, me.id, { sessionId: draw.session(), messageId: draw.message() }),
  readPart: (db, me, draw) => messages.readPart(db, me.id, { sessionId: draw.session(), ...draw.call() }),
  refuseOverQuota: (db, me) => done(refuseOverQuota(db, me.id, { ...NO_QUOTA, tokensPerDay: 1_100 })),
  refuseOverStorage: (db, me) => done(refuseOverStorage(db, me.id, { ...NO_QUOTA, storedBytes: 100_000_000 })),
  readStoredBytes: async (db, me) => (await readStoredBytes(db, me.id)) > 0,
  findRun: (db, me, draw) => runs.findRun(db, me.id, draw.run()),
  findAskingRun: (db, me, draw) => askingRuns.findAskingRun(db, me.id, draw.run()),
  listAskingRuns: (db, me, draw) =>
    askingRuns.listAskingRuns(db, { tenantId: me.id, limit: 100, sessionId: draw.session() }),
  readAskingRuns: (db, me, draw) => askingRuns.readAskingRuns(db, me.id, [draw.run(), draw.run()]),
  findWait: async (db, me, draw) =>
    (await events.findWait(db, { ...owner(me, draw), runId: draw.run() }, [])).beganSeq !== null,
  readWritten: (db, me, draw) => readWritten(db, owner(me, draw), [draw.message(), draw.message()]),
  readOutputFormat: (db, me, draw) => readOutputFormat(db, me.id, draw.run()),
  readRunOutput: (db, me, draw) => readRunOutput(db, me.id, { id: draw.run(), status: 'completed' }),
  readRunOutcomes: (db, me, draw) => runs.readRunOutcomes(db, me.id, [draw.run(), draw.run()]),
  listRuns: (db, me, draw) => runs.listRuns(db, { tenantId: me.id, limit: 100, sessionId: draw.session() }),
  findUnstoppedTask: (db, me, draw) => runs.findUnstoppedTask(db, { ...owner(me, draw), runId: draw.run() }),
  findTaskAfter: (db, me, draw) => runs.findTaskAfter(db, { ...owner(me, draw), runId: draw.run() }),
  findSession: (db, me, draw) => sessions.findSession(db, me.id, draw.session()),
  findSessionByKey: (db, me) => sessions.findSessionByKey(db, me.id, SHARED.externalKey),
  findSessionId: (db, me) => sessions.findSessionId(db, me.id, { key: SHARED.externalKey }),
  readAgentSnapshot: (db, me, draw) => sessions.readAgentSnapshot(db, me.id, draw.session()),
  listSchedules: (db, me) => schedules.listSchedules(db, me.id),
  findScheduleByKey: (db, me) => schedules.findScheduleByKey(db, me.id, SHARED.externalKey),
  lockUndeclaredSchedules: (db, me) =>
    within(db, (tx) => schedules.lockUndeclaredSchedules(tx, me.id, { declaredBy: PROGRAM, keys: [] })),
  findSchedule: (db, me, draw) => schedules.findSchedule(db, me.id, draw.schedule()),
  lockSchedule: (db, me, draw) => within(db, (tx) => schedules.lockSchedule(tx, me.id, draw.schedule())),
  listFires: (db, me, draw) => schedules.listFires(db, { tenantId: me.id, scheduleId: draw.schedule(), limit: 10 }),
  listWebhooks: (db, me) => webhooks.listWebhooks(db, me.id),
  findWebhookByKey: (db, me) => webhooks.findWebhookByKey(db, me.id, SHARED.externalKey),
  lockUndeclaredWebhooks: (db, me) =>
    within(db, (tx) => webhooks.lockUndeclaredWebhooks(tx, me.id, { declaredBy: PROGRAM, keys: [] })),
  findWebhook: (db, me, draw) => webhooks.findWebhook(db, me.id, draw.webhook()),
  listDeliveries: (db, me, draw) =>
    webhookDeliveries.listDeliveries(db, { tenantId: me.id, limit: 100, webhookId: draw.webhook() }),
  findDelivery: (db, me, draw) => webhookDeliveries.findDelivery(db, me.id, draw.delivery()),
  listWaitingCalls: (db, me) => listWaitingCalls(db, { tenantId: me.id, limit: 100 }),
  readFailedRuns: async (db, me) => (await readFailedRuns(db, { tenantId: me.id, since: new Date(0) })).runs,
  readUsage: async (db, me) =>
    (await readUsage(db, { tenantId: me.id, by: ['agent'], since: new Date(0), until: new Date(8e15) })).rows,
  readActivity: async (db, me) => [...(await readActivity(db, me.id)).newest],
  listOperatorRuns: (db, me) => listOperatorRuns(db, { tenantId: me.id, limit: 100 }),
  readRuns: (db, me, draw) => runs.readRuns(db, me.id, [draw.run(), draw.run()]),
  readSessions: (db, me, draw) => sessions.readSessions(db, me.id, [draw.session(), draw.session()]),
  searchSessions: async (db, me) => (await searchSessions(db, { tenantId: me.id, limit: 100, minCostUsd: 0 })).rows,
  findMessages: async (db, me) => {
    // As the indexer writes them.
    await sql`
      insert into message_words (session_id, seq, tenant_id, created_at, words)
      select session.id, message.seq, session.tenant_id, session.created_at, array_to_tsvector(array[${`${me.id} a`}])
      from messages message join sessions session on session.id = message.session_id
      where message.tenant_id = ${me.id} on conflict (session_id, seq) do update set words = excluded.words`.execute(
      db,
    );
    const query = { words: ['a'], begun: tenantWord(me.id, 'a'), inMessages: tenantWord(me.id, 'a') };
    return [...(await findMessages(db, { tenantId: me.id, query, most: 100 })).matches];
  },
  readHits: async (db, me, draw) => [...(await readHits(db, me.id, [{ id: draw.session(), seq: 1 }], ['a'])).values()],
  readStepRequest: (db, me, draw) =>
    readStepRequest(db, { tenantId: me.id, runId: draw.run(), step: 1, attempt: null }),
  readStepLog: (db, me, draw) => readStepLog(db, { tenantId: me.id, runId: draw.run(), after: 0, limit: 100 }),
  listSessions: (db, me) => sessions.listSessions(db, { tenantId: me.id, limit: 100 }),
  readQuestion: (db, me, draw) => readQuestion(db, me.id, { id: draw.session(), active_run_id: draw.run() }),
  listWaiting: (db, me, draw) => waitingMessages.listWaiting(db, me.id, draw.session()),
  listWaitingNotices: (db, me, draw) => waitingMessages.listWaitingNotices(db, me.id, draw.session(), 100),
  countWaiting: async (db, me, draw) => (await waitingMessages.countWaiting(db, me.id, draw.session())) > 0,
  readPosition: (db, me, draw) => waitingMessages.readPosition(db, me.id, draw.session(), draw.message()),
  readWaiting: (db, me, draw) => waitingMessages.readWaiting(db, { ...owner(me, draw), messageId: draw.message() }),
  findAccepted: (db, me, draw) =>
    within(db, (tx) => inbox.findAccepted(tx, { ...owner(me, draw), messageId: draw.message() })),
  lockSession: (db, me, draw) => within(db, (tx) => sessions.lockSession(tx, me.id, draw.session())),
};

/** Writes by functions that take the tenant. */
export const WRITES: Readonly<Record<string, Call>> = {
  createApiKey: (db, me) => {
    const key = { id: newId(), tenantId: me.id, name: me.secret, scopes: ['read'], expiresAt: null } as const;
    return within(db, (tx) => apiKeys.createApiKey(tx, key));
  },
  makeRoomForKey: (db, me) => within(db, (tx) => apiKeys.makeRoomForKey(tx, me.id)),
  appendAudit: (db, me) =>
    done(audit.appendAudit(db, { tenantId: me.id, keyId: null, action: 'run:cancel', target: me.secret })),
  releaseThrottled: (db, me) => admission.releaseThrottled(db, me.id, 10),
  putBlob: (db, me) => blobs.putBlob(db, me.id, blobs.bytesBlob(newId(), 'text/plain', Buffer.from(SHARED.bytes))),
  answerOnce: (db, { id: tenantId, requestSha256, secret }) =>
    answerOnce(db, { tenantId, route: SHARED.route, key: SHARED.key, requestSha256 }, async () => ({
      status: 200,
      body: { secret },
    })),
  findOutputMatches: (db, me, draw) => {
    const { messageId, index } = draw.call();
    return within(db, (tx) => findOutputMatches(tx, owner(me, draw), [{ messageId, index, given: output(me) }]));
  },
  answerCall: (db, me, draw) => {
    const files = { kind: 'content' as const, content: [blobFile(draw.blob())] };
    const said = draw.number(2) === 0 ? ({ kind: 'approve' } as const) : files;
    return callAnswers.answerCall(db, { tenantId: me.id, ...draw.call() }, said);
  },
  refuseUnknownCall: (db, me, draw) => done(refuseUnknownCall(db, { tenantId: me.id, ...draw.call() })),
  findAnsweredSessions: (db, me) =>
    conversations.findAnsweredSessions(db, { tenantId: me.id, agentName: 'tester' }, SHARED.answerHash),
  findSessionsByQuestion: (db, me) =>
    conversations.findSessionsByQuestion(db, { tenantId: me.id, agentName: 'tester' }, SHARED.questionHash),
  inFirstSession: (db, me, draw) =>
    within(db, (tx) => {
      const sessionIds = (async function* () {
        yield draw.session();
      })();
      return conversations.inFirstSession(tx, me.id, sessionIds, async (session) => session);
    }),
  storeAnswer: (db, me, draw) => {
    const { questionHash, answerHash } = SHARED;
    return done(conversations.storeAnswer(db, owner(me, draw), { questionHash, answerHash }));
  },
  importConversation: async (db, me, draw) => {
    // Only an unused session takes an import, and the other tenant has none. So half of the imports go to a new session
    // of the caller.
    const id = draw.number(2) === 0 ? draw.session() : (await insertEmpty(db, me)).id;
    const said = [{ role: 'user' as const, parts: [...words(me.secret)] }];
    return done(within(db, (tx) => conversations.importConversation(tx, { tenantId: me.id, id }, said)));
  },
  keepUserFiles: (db, me, draw) => {
    const content = [blobFile(draw.blob()), dataFile(me.secret)];
    return within(db, (tx) => media.keepUserFiles(tx, owner(me, draw), content));
  },
  keepClientFiles: (db, me, draw) =>
    within(db, (tx) =>
      media.keepClientFiles(tx, owner(me, draw), [{ kind: 'content', content: [blobFile(draw.blob())] }]),
    ),
  keepFilesTogether: (db, me, draw) => {
    const files = [blobFile(draw.blob()), blobFile(draw.blob()), dataFile(me.secret)];
    return done(within(db, (tx) => media.keepFilesTogether(tx, owner(me, draw), files)));
  },
  insertSession: (db, me, draw) => {
    const ways = [() => insertEmpty(db, me, draw.session()), () => insertEmpty(db, me, newId(), SHARED.externalKey)];
    return (ways[draw.number(3)] ?? (() => insertEmpty(db, me)))();
  },
  forkSession: (db, me, draw) => {
    const atMessageId = draw.number(2) === 0 ? null : draw.message();
    return within(db, (tx) => forkSession(tx, { ...owner(me, draw), forkId: newId(), atMessageId }));
  },
  findFinishedSeq: (db, me, draw) =>
    within(db, (tx) => findFinishedSeq(tx, { ...owner(me, draw), messageId: draw.message() })),
  revertSession: (db, me, draw) =>
    within(db, (tx) => revertSession(tx, { ...owner(me, draw), messageId: draw.message() })),
  unrevertSession: (db, me, draw) => within(db, (tx) => unrevertSession(tx, owner(me, draw))),
  updateSession: (db, me, draw) => sessions.updateSession(db, me.id, draw.session(), { title: me.secret }),
  replacePinnedTools: (db, me, draw) => {
    const changes = [{ server: 'docs', added: [], changed: [me.secret], removed: [] }];
    return within(db, (tx) =>
      pinnedTools.replacePinnedTools(tx, { ...owner(me, draw), agentVersion: '1' }, () => ({
        pinnedTools: { docs: { hash: 'old', tools: [] } },
        changes,
      })),
    );
  },
  switchAgent: (db, me, draw) => within(db, (tx) => switchAgent(tx, owner(me, draw), () => kept(me))),
  acceptMessage: (db, me, draw) => {
    const content = draw.number(2) === 0 ? words(me.secret) : [blobFile(draw.blob())];
    const messageId = draw.number(2) === 0 ? newId() : draw.message();
    const delivery = (['steer', 'followup', 'interrupt', 'reject'] as const)[draw.number(4)] ?? 'steer';
    return acceptMessage(db, { ...owner(me, draw), messageId, content, runId: newId(), delivery });
  },
  changeWaiting: (db, me, draw) => {
    const change = draw.number(2) === 0 ? { content: [blobFile(draw.blob())] } : { delivery: 'followup' as const };
    return changeWaiting(db, { ...owner(me, draw), messageId: draw.message() }, change, newId());
  },
  removeWaiting: (db, me, draw) =>
    waiting.removeWaiting(db, { ...owner(me, draw), messageId: draw.number(2) === 0 ? null : draw.message() }),
  requestMaintenance: (db, me, draw) => requestMaintenance(db, { ...owner(me, draw), kind: 'prune', runId: newId() }),
  resumeSession: (db, me, draw) => resumeSession(db, { ...owner(me, draw), runId: newId(), limits: {} }),
  requestCancel: (db, me, draw) => cancels.requestCancel(db, me.id, draw.run()),
  requestSessionCancel: (db, me, draw) => cancels.requestSessionCancel(db, me.id, draw.session(), draw.number(2) === 0),
  createSchedule: (db, me) => within(db, (tx) => schedules.createSchedule(tx, scheduleOf(me.id, me.secret))),
  pauseSchedule: (db, me, draw) =>
    within(db, (tx) => schedules.pauseSchedule(tx, me.id, draw.schedule(), { reason: me.secret, next: null })),
  deleteSchedule: (db, me, draw) => done(within(db, (tx) => schedules.deleteSchedule(tx, me.id, draw.schedule()))),
  createWebhook: (db, me) =>
    within(db, (tx) =>
      webhooks.createWebhook(tx, {
        id: newId(),
        tenantId: me.id,
        url: `https://hooks.example.com/${me.secret}`,
        secret: me.secret,
        events: ['run:completed'],
        agent: null,
      }),
    ),
  changeWebhook: (db, me, draw) =>
    within(db, (tx) => webhooks.changeWebhook(tx, me.id, draw.webhook(), { enabled: draw.number(2) === 0 })),
  testWebhook: (db, me, draw) => done(within(db, (tx) => webhooks.testWebhook(tx, me.id, draw.webhook(), newId()))),
  redeliver: (db, me, draw) => within(db, (tx) => webhookDeliveries.redeliver(tx, me.id, draw.delivery())),
  deleteWebhook: (db, me, draw) => done(within(db, (tx) => webhooks.deleteWebhook(tx, me.id, draw.webhook()))),
  deleteSession: (db, me, draw) => done(sessions.deleteSession(db, me.id, draw.session())),
};

const insertEmpty = (db: Db, me: Tenant, id = newId(), externalKey?: string) =>
  sessions.insertSession(db, {
    id,
    tenantId: me.id,
    agentName: 'tester',
    agentVersion: '1',
    agentSnapshot: agentOf(me.secret),
    title: me.secret,
    metadata: {},
    ...(externalKey !== undefined && { externalKey }),
  });

/** Calls for a session of the caller that name something else of a session: it has to belong to the same session. */
export const OF_OWN_SESSION: Readonly<Record<string, Call>> = {
  readTextBlob: (db, me, draw) => blobs.readTextBlob(db, ownSession(me, draw), draw.blob()),
  readMedia: (db, me, draw) => {
    const parts = [blobFile(draw.blob()), blobFile(draw.blob())];
    return media.readMedia(db, ownSession(me, draw), [{ id: newId(), seq: 1, role: 'user', model: null, parts }]);
  },
  nameMedia: (db, me, draw) => {
    const parts = [blobFile(draw.blob()), blobFile(draw.blob())];
    return media.nameMedia(
      db,
      ownSession(me, draw),
      [{ id: newId(), seq: 1, role: 'user', model: null, parts }],
      () => true,
    );
  },
  attachBlobs: async (db, me, draw) => {
    const known = { id: draw.blob(), sha256: Buffer.from(SHARED.bytes), mediaType: 'text/plain' };
    return blobs.attachBlobs(db, { sessionId: ownSession(me, draw) }, [known]);
  },
  readChunks: (db, me, draw) => readChunks(db, inOwnSession(me, draw), 0),
  readStreamedParts: (db, me, draw) => readStreamedParts(db, inOwnSession(me, draw)),
  readWrittenText: (db, me, draw) => liveSnapshot.readWrittenText(db, inOwnSession(me, draw)),
  readInterruptedStep: (db, me, draw) => orNone(messages.readInterruptedStep(db, inOwnSession(me, draw))),
  readMessageSeq: (db, me, draw) => orNone(toolOutputs.readMessageSeq(db, inOwnSession(me, draw))),
  readCallAnswers: (db, me, draw) => readCallAnswers(db, ownSession(me, draw), [draw.message(), draw.message()]),
  changeCall: (db, me, draw) => {
    const { messageId, index } = draw.call();
    const given = { state: 'completed', output: { type: 'text', value: me.secret } } as const;
    return done(within(db, (tx) => changeCall(tx, { sessionId: ownSession(me, draw), messageId, index }, given)));
  },
  readToolOutput: (db, me, draw) =>
    toolOutputs.readToolOutput(db, ownSession(me, draw), { messageSeq: 2, partIndex: draw.number(2) }),
};

const ownSession = (me: Tenant, draw: Draw): string => me.sessions[draw.number(me.sessions.length)] ?? '';

const inOwnSession = (me: Tenant, draw: Draw) => ({ sessionId: ownSession(me, draw), messageId: draw.message() });

/** Null: the session has no such message. */
const orNone = <T>(read: Promise<T>): Promise<T | null> =>
  read.catch((error: unknown) => {
    if (error instanceof NoResultError) return null;
    throw error;
  });

/** Writes of a worker by a claim that it holds: on nothing but the claim's own run and session. */
export const CLAIMED: Readonly<Record<string, Call>> = {
  appendChunks: (db, me, draw) => {
    const chunk = { charOffset: draw.number(1_000), partIndex: 0, type: 'text', text: me.secret } as const;
    // A worker gets the message from its claim, as it gets the fence.
    const steps = me.claims.filter(({ messageId: id }) => me.messages.includes(id));
    const { fence, messageId } = steps[draw.number(steps.length)] ?? draw.claim();
    const streamed = { fence: { ...fence, runId: draw.run() }, messageId, chunks: [chunk] };
    return stepWrites.appendChunks(db, [streamed]).then(([held]) => held);
  },
  moveCalls: (db, me, draw) => {
    const { messageId, index } = draw.call();
    const cut = { originalTokens: 9, blob: blobs.textBlob(newId(), me.secret) };
    const move = { from: ['completed', 'pending'], to: 'completed', cut, events: [] } as const;
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    return stepWrites.moveCalls(db, fence, [{ ...move, messageId, index }]);
  },
  noteProviderResponse: (db, me, draw) => {
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    return done(
      noteProviderResponse(db, fence, draw.message(), { id: me.secret, provider: 'test', requestSha256: '' }),
    );
  },
  noteOutsideWork: (db, me, draw) => {
    const { messageId, index } = draw.call();
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    return done(noteOutsideWork(db, fence, { messageId, index }, { taskId: me.secret }));
  },
  noteAttempt: (db, _, draw) => done(claims.noteAttempt(db, anyFence(draw), 'trace')),
  renewLeases: (db, _, draw) => claims.renewLeases(db, [anyFence(draw), anyFence(draw)], 1_000),
  noteToolDrift: (db, me, draw) => {
    const drift = {
      server: 'docs',
      tool: me.secret,
      change: 'changed',
      pinnedHash: 'old',
      offeredHash: 'new',
    } as const;
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    return pinnedTools.noteToolDrift(db, fence, draw.session(), drift);
  },
  restartStep: (db, _, draw) => {
    const { fence, messageId } = draw.claim();
    return draw.number(2) === 0
      ? claims.restartStep(db, fence, newId(), { messageId: draw.message(), events: [] })
      : claims.restartStep(db, anyFence(draw), newId(), { messageId, events: [] });
  },
  writeResponse: (db, me, draw) => {
    const { fence, messageId } = draw.claim();
    const response = { parts: words(me.secret), finishReason: 'stop' } as const;
    return draw.number(2) === 0
      ? stepWrites.writeResponse(db, fence, { ...response, messageId: draw.message() }, [])
      : stepWrites.writeResponse(db, anyFence(draw), { ...response, messageId }, []);
  },
  beginCompaction: (db, _, draw) => {
    const round = { id: newId(), strategy: 'manual', reason: 'manual', fromSeq: 1, uptoSeq: 2 } as const;
    return maintenance.beginCompaction(db, anyFence(draw), { ...round, tokensBefore: 9, modelLimit: 9 });
  },
  finishStep: (db, me, draw) => {
    const { messageId, index } = draw.call();
    const move = { messageId, index, from: ['completed', 'pending'], to: 'completed', events: [] } as const;
    const response = { messageId: draw.message(), parts: words(me.secret), finishReason: 'stop' } as const;
    const what = draw.number(2) === 0 ? { moves: [], response } : { moves: [move] };
    const rest = { usage: NO_USAGE, costUsd: 0, steps: 1, events: [], nextRunId: newId() } as const;
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    return stepWrites.finishStep(db, fence, { ...rest, ...what, next: goesOn(fence) });
  },
  finishMaintenance: (db, _, draw) => {
    const fence = draw.number(2) === 0 ? draw.claim().fence : anyFence(draw);
    const { messageId, index } = draw.call();
    const marks = [{ messageId, index, pruned: true } as const];
    const rest = { contextState: NEW_CONTEXT_STATE, usage: NO_USAGE, costUsd: 0, events: [], nextRunId: newId() };
    return maintenance.finishMaintenance(db, fence, { marks, ...rest, next: goesOn(fence) });
  },
  failClaimedRun: (db, me, draw) => failClaimedRun(db, anyFence(draw), { code: 'internal', message: me.secret }),
  handBackRun: (db, _, draw) => claims.handBackRun(db, anyFence(draw)),
};

const goesOn = ({ runId }: Fence) => planAfterMaintenance({ runId, runKind: 'task', stepNo: 1, goesOnWith: 'step' });
