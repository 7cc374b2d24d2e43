import { sql } from 'kysely';
import pg from 'pg';
import { afterAnswered } from '../../src/commands/after-commit.ts';
import { answerCallIn } from '../../src/commands/answer-call.ts';
import { cancelRun } from '../../src/commands/cancel.ts';
import { resumeSession } from '../../src/commands/resume-session.ts';
import { sendMessage } from '../../src/commands/send-message.ts';
import { formatCallId, parseCallId } from '../../src/domain/ids.ts';
import { inTransaction } from '../../src/store/db/database.ts';
import { claimJob, endStep } from '../http/play-worker.ts';
import { eventually } from '../support/eventually.ts';
import {
  type Act,
  type Cell,
  chatMessage,
  cli,
  client,
  type Do,
  fire,
  firedSchedule,
  GO,
  hook,
  mapDoors,
  mcp,
  NO_ACT,
  NOWHERE,
  newCustomer,
  ONLY_DECLARES,
  ok,
  placeOf,
  post,
  type Refusal,
  run,
  SENDERS,
  ses,
} from './doors.ts';
import {
  ACTOR,
  idleSession,
  jobOf,
  keyedSession,
  newestSession,
  openCall,
  type Place,
  queuedRun,
  type World,
} from './world.ts';

/** A run with a call to another agent, whose session is to begin. `sessionId` and `runId`: of that agent. */
async function dueChild(world: World): Promise<Place> {
  const { db, newId } = world.deps;
  const parent = await queuedRun(world);
  const claimed = await claimJob(db, jobOf(world, parent.runId));
  const { messageId } = claimed;
  const call = { agent: 'tester', toolName: 'tester', mode: 'wait', limits: {}, maxParallel: 8 } as const;
  const child = { ...call, sessionId: newId(), runId: newId() };
  const part = { type: 'tool', toolCallId: 'c', toolName: 'tester', input: { task: 'Go' }, state: 'pending' } as const;
  const response = { messageId, parts: [part], finishReason: 'tool-calls', model: 'simulated/test' } as const;
  const calls = [{ kind: 'child', index: 0, part }] as const;
  const result = { kind: 'asks', messageId, calls, children: new Map([[0, child]]), waitMs: null } as const;
  await endStep(db, claimed, response, { toolCalls: 1, result });
  return {
    sessionId: child.sessionId,
    runId: child.runId,
    callId: formatCallId(messageId, 0),
    messageId: parent.runId,
  };
}

const childState = async ({ deps }: World, { runId }: Place, state: string): Promise<boolean> => {
  const { rows } = await sql`select 1 from children where run_id = ${runId} and state = ${state}`.execute(deps.db);
  return rows.length > 0;
};

/** Sends to an idle session, which the request names. */
const sendTo = (
  { name, prepare, session }: Pick<Act, 'name' | 'prepare'> & Readonly<{ session: (place: Place) => string }>,
  own: Pick<Act['doors'], 'hook' | 'schedule' | 'child'>,
): Act => ({
  name,
  file: 'send-message',
  leaves: { events: ['run:queued'], jobs: 1 },
  prepare,
  command: async ({ deps }, { sessionId }) => {
    const message = { actor: ACTOR, sessionId, messageId: deps.newId(), content: GO };
    await sendMessage(deps, { ...message, delivery: 'steer' });
  },
  doors: {
    route: post(
      (place) => `/v1/sessions/${encodeURIComponent(session(place))}/messages`,
      () => ({ content: 'Go' }),
    ),
    useChat: post(
      () => '/api/chat',
      (place) => ({ id: session(place), message: chatMessage('Go') }),
    ),
    completions: {
      act: async (world, place) => {
        const body = { model: 'tester', stream: true, messages: [{ role: 'user', content: 'Go' }] };
        await ok(world.request('POST', '/v1/chat/completions', body, { 'x-session-id': session(place) }));
      },
    },
    responses: post(
      () => '/v1/responses',
      (place) => ({ model: 'tester', input: 'Go', conversation: session(place), background: true }),
    ),
    mcp: mcp('tools/call', (place) => ({
      ...{ name: 'tester', arguments: { task: 'Go', session: session(place) } },
      task: {},
    })),
    ...own,
    declaration: ONLY_DECLARES,
    sendIn: {
      act: async ({ baton, deps }, place) => {
        const program = new pg.Client({ connectionString: deps.databaseUrl });
        await program.connect();
        await program.query('begin');
        await baton.sendIn(program, session(place), 'Go');
        await program.query('commit');
        await program.end();
      },
    },
    client: client((baton, place) => baton.send(session(place), 'Go')),
    cli: cli((place) => ['send', session(place), 'Go']),
  },
});

export const send: Act = sendTo(
  { name: 'sends a message to an idle session', prepare: idleSession, session: ses },
  {
    hook: { prepare: newCustomer, act: hook('followup') },
    schedule: { act: (world) => firedSchedule(world, {}) },
    child: {
      prepare: dueChild,
      act: async (world, place) => {
        world.deps.lookAfterChildren();
        await eventually(() => childState(world, place, 'running'), 'the child runs');
      },
    },
  },
);

const WITHOUT_KEY = { without: 'its sessions are its own' };

export const sendByKey: Act = sendTo(
  {
    name: 'sends a message to the session with a key',
    prepare: keyedSession,
    session: ({ callId: key }) => `key:${key}`,
  },
  { hook: { act: hook('keyed') }, schedule: WITHOUT_KEY, child: WITHOUT_KEY },
);

export const interrupt: Act = {
  name: 'sends a message that interrupts a run',
  file: 'send-message',
  leaves: { audit: ['run:cancel /v1/runs/run/cancel'], events: ['run:cancelled', 'run:queued'], jobs: 1, ended: 1 },
  prepare: queuedRun,
  command: async ({ deps }, { sessionId }) => {
    const message = { actor: ACTOR, sessionId, messageId: deps.newId(), content: GO };
    await sendMessage(deps, { ...message, delivery: 'interrupt' });
  },
  doors: {
    route: post(
      (place) => `/v1/sessions/${ses(place)}/messages`,
      () => ({ content: 'Go', delivery: 'interrupt' }),
    ),
    useChat: post(
      () => '/api/chat',
      (place) => ({ id: ses(place), message: chatMessage('Go'), delivery: 'interrupt' }),
    ),
    completions: NO_ACT,
    responses: NO_ACT,
    mcp: NO_ACT,
    hook: {
      prepare: async (world) => (await hook('interrupt')(world, await newCustomer(world))) ?? NOWHERE,
      act: hook('interrupt'),
    },
    schedule: {
      prepare: (world) => firedSchedule(world, { session: 'same', overlap: 'replace' }),
      act: async (world, { messageId }) => void (await fire(world, messageId)),
    },
    declaration: ONLY_DECLARES,
    child: { without: 'a call to a session at work is refused' },
    sendIn: { without: 'a transaction of the program cannot tell a worker' },
    client: client((baton, place) => baton.send(ses(place), 'Go', { delivery: 'interrupt' })),
    cli: cli((place) => ['send', ses(place), 'Go', '--delivery', 'interrupt']),
  },
};

/** Lets a worker have the run of a place. */
const atWorker =
  (prepare: Act['prepare']): Act['prepare'] =>
  async (world) => {
    const place = await prepare(world);
    await claimJob(world.deps.db, jobOf(world, place.runId));
    return place;
  };

const workingCell = (cell: Cell | Refusal): Cell | Refusal =>
  'act' in cell && cell.prepare !== undefined ? { ...cell, prepare: atWorker(cell.prepare) } : cell;

export const interruptAtWorker: Act = {
  ...interrupt,
  name: 'sends a message that interrupts a run at a worker',
  leaves: { audit: ['run:cancel /v1/runs/run/cancel'], events: ['run:cancelling', 'message:queued'], stops: 1 },
  prepare: atWorker(queuedRun),
  doors: mapDoors(interrupt.doors, workingCell),
};

export const answer: Act = {
  name: 'answers a call',
  file: 'answer-call',
  leaves: { audit: ['tool-call:answer /v1/runs/run/tool-calls/call'], events: ['run:answered'], jobs: 1 },
  prepare: openCall,
  command: async ({ deps }, { runId, callId }) => {
    const call = parseCallId(callId) ?? { messageId: '', index: 0 };
    const request = { actor: ACTOR, runId, ...call, answer: { kind: 'output', output: 'Sunny' } } as const;
    await afterAnswered(deps, await inTransaction(deps.db, (tx) => answerCallIn(tx, request)));
  },
  doors: {
    ...SENDERS,
    route: post(
      (place) => `/v1/runs/${run(place)}/tool-calls/${place.callId}`,
      () => ({ output: 'Sunny' }),
    ),
    useChat: post(
      () => '/api/chat',
      (place) => {
        const call = { type: 'tool-look', toolCallId: place.callId, input: {} };
        const parts = [{ ...call, state: 'output-available', output: 'Sunny' }];
        return { id: ses(place), messages: [{ id: run(place), role: 'assistant', parts }] };
      },
    ),
    completions: {
      act: async (world, place) => {
        const call = { id: place.callId, type: 'function', function: { name: 'look', arguments: '{}' } };
        const messages = [
          { role: 'user', content: 'Go' },
          { role: 'assistant', tool_calls: [call] },
          { role: 'tool', tool_call_id: place.callId, content: 'Sunny' },
        ];
        const body = { model: 'tester', stream: true, messages };
        await ok(world.request('POST', '/v1/chat/completions', body, { 'x-session-id': ses(place) }));
      },
    },
    responses: post(
      () => '/v1/responses',
      (place) => {
        const output = { type: 'function_call_output', call_id: place.callId, output: 'Sunny' };
        return { model: 'tester', conversation: ses(place), background: true, input: [output] };
      },
    ),
    mcp: NO_ACT,
    client: client((baton, place) => baton.runs.answer(run(place), place.callId, { output: 'Sunny' })),
    cli: cli((place) => ['answer', run(place), place.callId, '--output', '"Sunny"']),
  },
};

/** A session whose run was cancelled before it began: its message is parked. */
async function stopped(world: World): Promise<Place> {
  const place = await queuedRun(world);
  await cancelRun(world.deps, { actor: ACTOR, runId: place.runId });
  return place;
}

const askAgain: Do = async (world, { callId }) => {
  const body = { model: 'tester', stream: true, messages: [{ role: 'user', content: 'Go' }] };
  await ok(world.request('POST', '/v1/chat/completions', body, { 'idempotency-key': callId }));
};

export const resume: Act = {
  name: 'goes on with a stopped session',
  file: 'resume-session',
  leaves: { audit: ['session:resume /v1/sessions/ses/resume'], events: ['run:queued'], jobs: 1 },
  prepare: stopped,
  command: async ({ deps }, { sessionId }) => void (await resumeSession(deps, { actor: ACTOR, sessionId })),
  doors: {
    ...{ ...SENDERS, mcp: NO_ACT },
    route: post((place) => `/v1/sessions/${ses(place)}/resume`),
    useChat: post(
      () => '/api/chat',
      (place) => ({ id: ses(place), trigger: 'regenerate-message', messages: [chatMessage('Go')] }),
    ),
    completions: {
      prepare: async (world) => {
        const callId = world.deps.newId();
        await askAgain(world, { ...NOWHERE, callId });
        const place = await placeOf(world, await newestSession(world));
        await cancelRun(world.deps, { actor: ACTOR, runId: place.runId });
        return { ...place, callId };
      },
      act: askAgain,
    },
    responses: { without: 'it shares the code of completions' },
    client: client((baton, place) => baton.sessions.resume(ses(place))),
    cli: cli((place) => ['resume', ses(place)]),
  },
};
