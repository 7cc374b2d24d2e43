import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { vi } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import type { Dependencies } from '../../src/app/dependencies.ts';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { type Actor, serviceActor } from '../../src/commands/audit.ts';
import { createSessionIn } from '../../src/commands/create-session.ts';
import { sendMessage } from '../../src/commands/send-message.ts';
import { formatId, parseId } from '../../src/domain/ids.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { composeBaton } from '../../src/library/compose.ts';
import type { Baton } from '../../src/library/contract.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { newId } from '../../src/platform/new-id.ts';
import { inTransaction } from '../../src/store/db/database.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { answerStep, askStep, claimJob } from '../http/play-worker.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const TENANT = 'default';
export const HOOK_SECRET = 'a secret of a sender';
export const ACTOR: Actor = serviceActor(TENANT);

/** Where an act happens. `objectId`: of what is administered, as the API shows it. */
export type Place = Readonly<{
  sessionId: string;
  runId: string;
  callId: string;
  messageId: string;
  objectId?: string | undefined;
}>;

/** What an act has left: in the database, the queue, the bus, the log and the metrics. Ids are replaced. */
export type Trace = Readonly<{
  audit: readonly string[];
  events: readonly string[];
  jobs: number;
  isAnnounced: boolean;
  /** Workers that were told to stop the run. */
  stops: number;
  /** Runs that ended, in the log and in the metrics alike. */
  ended: number | string;
  /** What is administered. Null: nothing; `gone`: it was deleted. */
  object: unknown;
}>;

export type World = Awaited<ReturnType<typeof openWorld>>;

/** The service with all its doors and without a worker, so that nothing follows an act but what the act itself does. */
export async function openWorld() {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createTestDatabase());
  const folder = stack.use(await temporaryFolder());
  const hooksFile = path.join(folder.path, 'hooks.yaml');
  await writeFile(hooksFile, HOOKS);
  const environment = { DATABASE_URL: database.connectionString, BATON_PORT: '0', BATON_HOOKS_FILE: hooksFile };
  const logged: LogEvent[] = [];
  const { baton, deps } = stack.use(
    await composeBaton(loadConfig({ ...environment, BATON_SIMULATOR_URL: 'http://127.0.0.1:9' }), {
      migrate: false,
      log: (_level, event) => void logged.push(event),
      agents: createCatalogue([TESTER]),
      environment: { HOOK_SECRET },
      hasWorkspace: false,
      openWithoutKeys: true,
    }),
  );
  const noted = noteEffects(deps);
  const { url } = await baton.listen();
  // Readers of streams leave before the server closes.
  const readers = new AbortController();
  stack.defer(() => readers.abort());
  const owned = stack.move();
  return {
    ...{ baton, deps, url, noted, logged },
    request: (method: string, route: string, body?: unknown, headers: Record<string, string> = {}) =>
      fetch(`${url}${route}`, requestOf({ method, body, headers, signal: readers.signal })),
    /** Runs `baton` in this process, without its output. */
    async cli(...args: readonly string[]): Promise<void> {
      using _out = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
      using _log = vi.spyOn(console, 'log').mockReturnValue();
      const code = await runCommandLine(args, { ...REMOTE, BATON_URL: url, DATABASE_URL: database.connectionString });
      if (code !== 0) throw new Error(`baton ${args.join(' ')}: exit code ${code}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Id of the key of a door that is closed without one. The others have none. */
export const DOOR_KEY = newId();

export const WEBHOOK_SECRET = 'the-secret-of-this-receiver';
const REMOTE = { BATON_WEBHOOK_SECRET: WEBHOOK_SECRET };

export const TESTER = agentSchema.parse({ name: 'tester', model: 'simulated/test', models: ['*'] });

const HOOKS = [
  ['followup', 'followup', '{body.customer}'],
  ['interrupt', 'interrupt', '{body.customer}'],
  ['keyed', 'followup', 'key:{body.customer}'],
]
  .map(([name, delivery, session]) =>
    [
      `  ${name}:`,
      '    agent: tester',
      '    verify: hmac',
      '    signatureHeader: x-sig',
      '    idHeader: x-id',
      '    secretEnv: HOOK_SECRET',
      `    session: '${session}'`,
      "    content: '{body.text}'",
      `    delivery: ${delivery}`,
    ].join('\n'),
  )
  .reduce((text, hook) => `${text}\n${hook}`, 'hooks:');

function requestOf({ method, body, headers, signal }: Sent): RequestInit {
  if (body === undefined) return { method, headers, signal };
  const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { method, signal, headers: { ...json, ...headers }, body: text };
}

type Sent = Readonly<{ method: string; body: unknown; headers: Record<string, string>; signal: AbortSignal }>;

/** Notes the calls of queue and bus, which go on to the real ones. */
function noteEffects({ jobs, bus }: Dependencies) {
  const add = vi.spyOn(jobs, 'add');
  const announce = vi.spyOn(bus, 'announce');
  const requestCancel = vi.spyOn(bus, 'requestCancel');
  return {
    jobs: (): JobPayload[] => add.mock.calls.flatMap(([added]) => added),
    announced: () => announce.mock.calls.map(([sessionId]) => sessionId),
    stopped: () => requestCancel.mock.calls.map(([runId]) => runId),
    clear: () => [add, announce, requestCancel].forEach((spy) => void spy.mockClear()),
  };
}

const NOWHERE: Place = { sessionId: '', runId: '', callId: '', messageId: '' };

export async function idleSession({ deps }: World): Promise<Place> {
  const session = await inTransaction(deps.db, (tx) => createSessionIn(tx, deps, newSession(deps)));
  return { ...NOWHERE, sessionId: session.id };
}

/** A session with a key, which `callId` is. */
export async function keyedSession({ deps }: World): Promise<Place> {
  const key = `order/7 ${deps.newId()}`;
  const session = await inTransaction(deps.db, (tx) =>
    createSessionIn(tx, deps, { ...newSession(deps), externalKey: key }),
  );
  return { ...NOWHERE, sessionId: session.id, callId: key };
}

export const newSession = ({ newId }: Pick<Dependencies, 'newId'>) => ({
  ...{ id: newId(), tenantId: TENANT, agentName: TESTER.name, agentVersion: agentVersion(TESTER) },
  ...{ agentSnapshot: TESTER, title: null, metadata: {} },
});

/** A session whose run waits for a worker. */
export async function queuedRun(world: World): Promise<Place> {
  const { deps } = world;
  const place = await idleSession(world);
  const content = [{ type: 'text', text: 'Go' }] as const;
  const message = { actor: ACTOR, sessionId: place.sessionId, messageId: deps.newId(), content };
  const { runId, messageId } = await sendMessage(deps, { ...message, delivery: 'steer' });
  return { ...place, runId, messageId };
}

/** A session whose run waits for a worker, with a message that waits for the run. */
export async function waitingMessage(world: World): Promise<Place> {
  const place = await queuedRun(world);
  const content = [{ type: 'text', text: 'And this' }] as const;
  const message = { actor: ACTOR, sessionId: place.sessionId, messageId: world.deps.newId(), content };
  const { messageId } = await sendMessage(world.deps, { ...message, delivery: 'followup' });
  return { ...place, messageId };
}

export const jobOf = ({ noted }: World, runId: string) => noted.jobs().find((job) => job.runId === runId);

/** A session whose run waits for the output of a call that its client runs. */
export async function openCall(world: World): Promise<Place> {
  const place = await queuedRun(world);
  const claimed = await claimJob(world.deps.db, jobOf(world, place.runId));
  const [call] = await askStep(world.deps.db, claimed, [{ kind: 'output', toolName: 'look' }]);
  return { ...place, callId: call?.id ?? '' };
}

/** A session that has answered a message. `messageId`: that message, as the transcript has it. */
export async function answeredSession(world: World): Promise<Place> {
  const place = await queuedRun(world);
  await answerStep(world.deps.db, await claimJob(world.deps.db, jobOf(world, place.runId)), 'Done.');
  const [message] = await listMessages(world.deps.db, TENANT, place.sessionId, { afterSeq: 0, limit: 1 });
  return { ...place, messageId: message?.id ?? '' };
}

const NO_SESSION = '00000000-0000-0000-0000-000000000000';

/** Forgets what came before an act, and returns a function that reads what the act has left at its place. */
export async function beginTrace(world: World, place: Place): Promise<(after: Place) => Promise<Trace>> {
  const { deps, noted, logged } = world;
  const before = await eventsOf(deps, place.sessionId || NO_SESSION, 0);
  const endedBefore = await endedRuns(deps);
  await deps.db.deleteFrom('audit_log').execute();
  noted.clear();
  logged.length = 0;
  return async ({ sessionId: id, objectId }) => {
    const sessionId = id || NO_SESSION;
    const runIds = await runsOf(deps, sessionId);
    const rows = await deps.db.selectFrom('audit_log').select(['action', 'target', 'key_id']).orderBy('seq').execute();
    const events = await eventsOf(deps, sessionId, before.at(-1)?.seq ?? 0);
    const inLog = logged.filter((entry) => entry.event === 'run_ended' && runIds.includes(entry.runId)).length;
    const inMetrics = (await endedRuns(deps)) - endedBefore;
    const ids = [formatId('session', sessionId), ...runIds.map((runId) => formatId('run', runId)), objectId ?? 'none'];
    return {
      audit: rows.flatMap(({ action, target, key_id: keyId }) =>
        ids.some((known) => target.includes(known))
          ? [`${action} ${withoutIds(target)}${keyId === null || keyId === DOOR_KEY ? '' : keyId}`]
          : [],
      ),
      events: events.map(({ type }) => type),
      jobs: noted.jobs().filter(({ runId }) => runIds.includes(runId)).length,
      isAnnounced: noted.announced().includes(sessionId),
      stops: noted.stopped().filter((runId) => runIds.includes(runId)).length,
      ended: inLog === inMetrics ? inLog : `${inLog} in the log, ${inMetrics} in the metrics`,
      object: objectId === undefined ? null : await readObject(deps, objectId),
    };
  };
}

/** None of a session that does not exist. */
const eventsOf = ({ db }: Dependencies, sessionId: string, afterSeq: number) =>
  readEvents(db, TENANT, sessionId, { afterSeq, limit: 1_000 }).catch(() => []);

/** Columns of what is administered by its kind, without ids and times. */
const OBJECTS = {
  session: ['sessions', ['title', 'metadata']],
  webhook: ['webhooks', ['key', 'url', 'secret', 'events', 'agent_name', 'disabled_for']],
  delivery: ['webhook_deliveries', ['type', 'state']],
  schedule: ['schedules', ['key', 'agent_name', 'cron', 'content', 'paused_reason']],
  key: ['api_keys', ['name', 'scopes', 'revoked_at']],
} as const;

async function readObject({ db }: Dependencies, objectId: string): Promise<unknown> {
  for (const [kind, [table, columns]] of Object.entries(OBJECTS)) {
    const id = parseId(kind as keyof typeof OBJECTS, objectId);
    if (id === null) continue;
    const row = await db.selectFrom(table).selectAll().where('id', '=', id).executeTakeFirst();
    if (row === undefined) return 'gone';
    const values: Readonly<Record<string, unknown>> = row;
    return Object.fromEntries(columns.map((name) => [name, values[name] instanceof Date ? 'a time' : values[name]]));
  }
  throw new Error(`${objectId} is no object of an act`);
}

const withoutIds = (target: string): string => target.replaceAll(/_[0-9a-f]{32}(_\d+)?/g, '');

async function runsOf({ db }: Dependencies, sessionId: string): Promise<string[]> {
  const rows = await db.selectFrom('runs').select('id').where('session_id', '=', sessionId).execute();
  return rows.map(({ id }) => id);
}

async function endedRuns({ metrics }: Dependencies): Promise<number> {
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('baton_runs_ended_total{'));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

export async function newestSession({ deps }: Readonly<{ deps: Dependencies; baton: Baton }>): Promise<string> {
  const row = await deps.db
    .selectFrom('sessions')
    .select('id')
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow();
  return row.id;
}
