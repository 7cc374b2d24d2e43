import { agentVersion } from '../../src/agents/agent.ts';
import { afterEvent } from '../../src/commands/after-commit.ts';
import { cancelRun, cancelSession } from '../../src/commands/cancel.ts';
import { changeQueued, removeQueued } from '../../src/commands/change-queue.ts';
import { createSessionIn } from '../../src/commands/create-session.ts';
import { forkSessionIn } from '../../src/commands/fork-session.ts';
import { maintainSession } from '../../src/commands/maintain-session.ts';
import { repinToolsIn } from '../../src/commands/repin-tools.ts';
import { revertSessionIn, unrevertSessionIn } from '../../src/commands/revert-session.ts';
import { switchAgentIn } from '../../src/commands/switch-agent.ts';
import { parseId } from '../../src/domain/ids.ts';
import { inTransaction } from '../../src/store/db/database.ts';
import {
  type Act,
  cli,
  client,
  type Do,
  fire,
  firedSchedule,
  mcp,
  msg,
  NO_CHAT_ACTS,
  NOWHERE,
  ONLY_DECLARES,
  ONLY_SENDS,
  ok,
  placeOf,
  post,
  run,
  SENDERS,
  ses,
} from './doors.ts';
import {
  ACTOR,
  answeredSession,
  idleSession,
  newestSession,
  newSession,
  queuedRun,
  TESTER,
  waitingMessage,
} from './world.ts';

export const cancelOfRun: Act = {
  name: 'cancels a run',
  file: 'cancel',
  leaves: { audit: ['run:cancel /v1/runs/run/cancel'], events: ['run:cancelled'], ended: 1 },
  prepare: queuedRun,
  command: async ({ deps }, { runId }) => void (await cancelRun(deps, { actor: ACTOR, runId })),
  doors: {
    route: post((place) => `/v1/runs/${run(place)}/cancel`),
    useChat: { without: 'it stops the active run of a chat' },
    completions: {
      prepare: async (world) => {
        const reader = new AbortController();
        const body = { model: 'tester', stream: true, messages: [{ role: 'user', content: 'Stop me' }] };
        const headers = { 'content-type': 'application/json' };
        const request = { method: 'POST', headers, body: JSON.stringify(body), signal: reader.signal };
        await ok(fetch(`${world.url}/v1/chat/completions`, request));
        const place = await placeOf(world, await newestSession(world));
        leaving.set(place.runId, reader);
        return place;
      },
      act: async (_world, { runId }) => void leaving.get(runId)?.abort(),
    },
    responses: {
      prepare: async (world) => {
        const body = { model: 'tester', input: 'Go', background: true };
        const { id } = Object(await (await ok(world.request('POST', '/v1/responses', body))).json());
        return { ...(await placeOf(world, await newestSession(world))), callId: String(id) };
      },
      act: async (world, { callId }) => void (await ok(world.request('POST', `/v1/responses/${callId}/cancel`))),
    },
    mcp: mcp('tasks/cancel', (place) => ({ taskId: run(place) })),
    hook: ONLY_SENDS,
    schedule: {
      prepare: (world) => firedSchedule(world, { session: 'new', overlap: 'replace' }),
      act: async (world, { messageId }) => void (await fire(world, messageId)),
    },
    declaration: ONLY_DECLARES,
    child: { without: 'the cancel of the parent is the act: see the last act' },
    sendIn: ONLY_SENDS,
    client: client((baton, place) => baton.runs.cancel(run(place))),
    cli: cli((place) => ['cancel', run(place)]),
  },
};

/** Readers of streams, by the run that ends with them. */
const leaving = new Map<string, AbortController>();

export const cancelOfSession: Act = {
  name: 'cancels the active run of a session',
  file: 'cancel',
  leaves: { audit: ['session:cancel /v1/sessions/ses/cancel'], events: ['run:cancelled'], ended: 1 },
  prepare: queuedRun,
  command: async ({ deps }, { sessionId }) => void (await cancelSession(deps, { actor: ACTOR, sessionId })),
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: post((place) => `/v1/sessions/${ses(place)}/cancel`),
    useChat: post((place) => `/api/chat/${ses(place)}/stop`),
    client: client((baton, place) => baton.sessions.cancel(ses(place))),
    cli: cli((place) => ['cancel', ses(place)]),
  },
};

const WITH_A_MESSAGE = { without: 'it creates one with its first message: see the first act' };

export const create: Act = {
  name: 'creates a session',
  file: 'create-session',
  leaves: { isAnnounced: false },
  prepare: async () => NOWHERE,
  command: async ({ deps }) => {
    const session = await inTransaction(deps.db, (tx) => createSessionIn(tx, deps, newSession(deps)));
    return { ...NOWHERE, sessionId: session.id };
  },
  doors: {
    ...{ useChat: WITH_A_MESSAGE, completions: WITH_A_MESSAGE, responses: WITH_A_MESSAGE, mcp: WITH_A_MESSAGE },
    ...{ hook: WITH_A_MESSAGE, schedule: WITH_A_MESSAGE, child: WITH_A_MESSAGE, cli: WITH_A_MESSAGE },
    declaration: ONLY_DECLARES,
    sendIn: WITH_A_MESSAGE,
    route: {
      act: async (world) => {
        await ok(world.request('POST', '/v1/sessions', { agent: 'tester' }));
        return { ...NOWHERE, sessionId: await newestSession(world) };
      },
    },
    client: {
      act: async ({ baton }) => {
        const { id } = await baton.client.sessions.create({ agent: 'tester' });
        return { ...NOWHERE, sessionId: parseId('session', id) ?? '' };
      },
    },
  },
};

export const change: Act = {
  name: 'edits a queued message',
  file: 'change-queue',
  leaves: { audit: ['message:change /v1/sessions/ses/queue/msg'], events: ['message:changed'] },
  prepare: waitingMessage,
  command: async ({ deps }, { sessionId, messageId }) => {
    const text = [{ type: 'text', text: 'Else' }] as const;
    await changeQueued(deps, { actor: ACTOR, sessionId, messageId }, { content: text, delivery: undefined });
  },
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: {
      act: async (world, place) => {
        const route = `/v1/sessions/${ses(place)}/queue/${msg(place)}`;
        await ok(world.request('PATCH', route, { content: 'Else' }));
      },
    },
    client: client((baton, place) => baton.queue.change(ses(place), msg(place), { content: 'Else' })),
    cli: cli((place) => ['queue', ses(place), 'edit', msg(place), 'Else']),
  },
};

export const remove: Act = {
  name: 'removes a queued message',
  file: 'change-queue',
  leaves: { audit: ['message:remove /v1/sessions/ses/queue/msg'], events: ['message:removed'] },
  prepare: waitingMessage,
  command: async ({ deps }, { sessionId, messageId }) =>
    void (await removeQueued(deps, { actor: ACTOR, sessionId, messageId })),
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: {
      act: async (world, place) =>
        void (await ok(world.request('DELETE', `/v1/sessions/${ses(place)}/queue/${msg(place)}`))),
    },
    responses: {
      prepare: async (world) => {
        const place = await queuedRun(world);
        const body = { model: 'tester', input: 'Then', conversation: ses(place), background: true };
        const { id } = Object(await (await ok(world.request('POST', '/v1/responses', body))).json());
        return { ...place, callId: String(id) };
      },
      act: async (world, { callId }) => void (await ok(world.request('POST', `/v1/responses/${callId}/cancel`))),
    },
    client: client((baton, place) => baton.queue.remove(ses(place), msg(place))),
    cli: cli((place) => ['queue', ses(place), 'remove', msg(place)]),
  },
};

const ONLY_BY_API = { ...NO_CHAT_ACTS, ...SENDERS, cli: { without: 'it has no such command' } };

export const maintain: Act = {
  name: 'asks for a compaction',
  file: 'maintain-session',
  leaves: { audit: ['session:compact /v1/sessions/ses/compact'], events: ['run:queued'], jobs: 1 },
  prepare: answeredSession,
  command: async ({ deps }, { sessionId }) =>
    void (await maintainSession(deps, { actor: ACTOR, sessionId, kind: 'compaction' })),
  doors: {
    ...ONLY_BY_API,
    route: post((place) => `/v1/sessions/${ses(place)}/compact`),
    client: client((baton, place) => baton.sessions.compact(ses(place))),
  },
};

export const switchAgent: Act = {
  name: 'gives a session another model',
  file: 'switch-agent',
  leaves: { audit: ['session:agent /v1/sessions/ses/agent'], events: ['llm:switched'] },
  prepare: idleSession,
  command: async ({ deps }, { sessionId }) => {
    const agent = { ...TESTER, model: 'simulated/other' };
    const next = { name: 'tester', version: agentVersion(agent), snapshot: agent, overrides: { model: agent.model } };
    const request = { actor: ACTOR, sessionId };
    const switched = await inTransaction(deps.db, (tx) => switchAgentIn(tx, request, () => next));
    afterEvent(deps, sessionId, switched);
  },
  doors: {
    ...ONLY_BY_API,
    route: post(
      (place) => `/v1/sessions/${ses(place)}/agent`,
      () => ({ model: 'simulated/other' }),
    ),
    client: client((baton, place) => baton.sessions.switchAgent(ses(place), { model: 'simulated/other' })),
  },
};

export const fork: Act = {
  name: 'forks a session',
  file: 'fork-session',
  leaves: { audit: ['session:fork /v1/sessions/ses/fork'], isAnnounced: false },
  prepare: answeredSession,
  command: async ({ deps }, { sessionId }) => {
    const copy = { actor: ACTOR, sessionId, atMessageId: null, title: undefined, metadata: undefined };
    await inTransaction(deps.db, (tx) => forkSessionIn(tx, deps, copy));
  },
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: post((place) => `/v1/sessions/${ses(place)}/fork`),
    client: client((baton, place) => baton.sessions.fork(ses(place))),
    cli: cli((place) => ['fork', ses(place)]),
  },
};

const revertIn: Do = async ({ deps }, { sessionId, messageId }) => {
  const request = { actor: ACTOR, sessionId, messageId };
  afterEvent(deps, sessionId, await inTransaction(deps.db, (tx) => revertSessionIn(tx, request)));
};

export const revert: Act = {
  name: 'takes the end of a session away',
  file: 'revert-session',
  leaves: { audit: ['session:revert /v1/sessions/ses/revert'], events: ['session:reverted'] },
  prepare: answeredSession,
  command: revertIn,
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: post(
      (place) => `/v1/sessions/${ses(place)}/revert`,
      (place) => ({ toMessage: msg(place) }),
    ),
    client: client((baton, place) => baton.sessions.revert(ses(place), msg(place))),
    cli: cli((place) => ['revert', ses(place), msg(place)]),
  },
};

export const unrevert: Act = {
  name: 'brings the end of a session back',
  file: 'revert-session',
  leaves: { audit: ['session:unrevert /v1/sessions/ses/unrevert'], events: ['session:unreverted'] },
  prepare: async (world) => {
    const place = await answeredSession(world);
    await revertIn(world, place);
    return place;
  },
  command: async ({ deps }, { sessionId }) => {
    const restored = await inTransaction(deps.db, (tx) => unrevertSessionIn(tx, { actor: ACTOR, sessionId }));
    afterEvent(deps, sessionId, restored);
  },
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: post((place) => `/v1/sessions/${ses(place)}/unrevert`),
    client: client((baton, place) => baton.sessions.unrevert(ses(place))),
    cli: cli((place) => ['unrevert', ses(place)]),
  },
};

export const repin: Act = {
  name: 'accepts the tools that servers offer now',
  file: 'repin-tools',
  leaves: { audit: ['session:repin /v1/sessions/ses/repin'], isAnnounced: false },
  prepare: idleSession,
  command: async ({ deps }, { sessionId }) => {
    const request = { actor: ACTOR, sessionId, agentVersion: agentVersion(TESTER) };
    const same = () => ({ pinnedTools: {}, changes: [] });
    afterEvent(deps, sessionId, await inTransaction(deps.db, (tx) => repinToolsIn(tx, request, same)));
  },
  doors: {
    ...{ ...NO_CHAT_ACTS, ...SENDERS },
    route: post((place) => `/v1/sessions/${ses(place)}/repin`),
    client: client((baton, place) => baton.sessions.repin(ses(place))),
    cli: cli((place) => ['repin', ses(place)]),
  },
};
