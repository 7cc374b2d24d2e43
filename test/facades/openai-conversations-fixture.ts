import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { afterAll, beforeAll } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { completionRequestSchema } from '../../src/api/completion-request.ts';
import { ANYBODY } from '../../src/domain/access.ts';
import { toErrorRecord } from '../../src/domain/errors.ts';
import { completionPieces } from '../../src/facades/openai/completion-pieces.ts';
import { startCompletion } from '../../src/facades/openai/start-completion.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { eventually } from '../support/eventually.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const AGENTS = Array.from({ length: 20 }, (_, n) => ({ name: `model-${n}` }));
/** An agent for each test, as `nextModel` names them. */
export const CATALOGUE = createCatalogue(
  AGENTS.map((agent) => agentSchema.parse({ model: `simulated/${agent.name}`, ...agent })),
);

export type Replies = Parameters<ChatService['service']['simulator']['script']>[1];

export const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
export const assistant = (content: string): ChatCompletionMessageParam => ({ role: 'assistant', content });
export const WEATHER: ChatCompletionTool = {
  type: 'function',
  function: { name: 'weather', description: 'Tells it.' },
};

/** The service of a test file, a client of OpenAI's library, and helpers for tests of conversations. */
export function conversationSuite() {
  let started: ChatService;
  let client: OpenAI;
  let taken = 0;
  beforeAll(async () => {
    started = await startChatService(AGENTS);
    client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => started[Symbol.asyncDispose]());

  function nextModel(replies: Replies): string {
    const model = `model-${taken++}`;
    started.service.simulator.script(model, replies);
    return model;
  }

  const gate = (name: string) => started.service.simulator.gate(name);
  /** The sessions of an agent, the oldest first. */
  const sessionsOf = (model: string) => {
    const sessions = started.service.deps.db.selectFrom('sessions').selectAll().where('agent_name', '=', model);
    return sessions.orderBy('created_at').execute();
  };
  const runsOf = async (model: string) => {
    const ids = (await sessionsOf(model)).map(({ id }) => id);
    const runs = started.service.deps.db.selectFrom('runs').selectAll().orderBy('created_at');
    return runs.where('session_id', 'in', ids).execute();
  };
  const statesOf = async (model: string) => (await runsOf(model)).map(({ status }) => status);
  const transcriptsOf = async (model: string) => {
    const { db } = started.service.deps;
    const sessions = await sessionsOf(model);
    const lists = await Promise.all(
      sessions.map(({ id }) => listMessages(db, 'default', id, { afterSeq: 0, limit: 100 })),
    );
    return lists.map((messages) =>
      messages.map(({ role, parts }) => `${role}: ${parts.flatMap((p) => ('text' in p ? [p.text] : [])).join('|')}`),
    );
  };
  const ask = async (model: string, messages: ChatCompletionMessageParam[], fields: object = {}, headers = {}) => {
    const { choices } = await client.chat.completions.create({ model, messages, ...fields }, { headers });
    return choices[0]?.message.content;
  };
  /** Streams until the gate is reached, then aborts. @returns the text that the client had received */
  async function abortAt(name: string, model: string, messages: ChatCompletionMessageParam[]): Promise<string> {
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    let told = '';
    const reading = (async () => {
      for await (const chunk of stream) told += chunk.choices[0]?.delta.content ?? '';
    })().catch(() => undefined);
    await gate(name).reached;
    await eventually(async () => told !== '', 'something was told');
    stream.controller.abort();
    await reading;
    return told;
  }
  const httpDeps = () => {
    const { deps } = started.service;
    return { ...deps, agents: CATALOGUE, readiness: deps.health.readiness };
  };
  /** Starts a request without a connection, so that the test can say that its client has gone away. */
  const startDirectly = (body: object, isRetry: boolean, isStream = false) =>
    startCompletion(httpDeps(), ANYBODY, {
      body: completionRequestSchema.parse(body),
      sessionName: null,
      key: null,
      isRetry,
      endsWithClient: isStream,
      signal: new AbortController().signal,
    });
  /**
   * Ends a request as if the client of a whole answer, or of a stream, had gone away. Resolves once the service has
   * dealt with it.
   */
  const goAway = (request: Awaited<ReturnType<typeof startDirectly>>, isStream = false): Promise<void> =>
    completionPieces(httpDeps(), request, {
      signal: AbortSignal.abort(),
      endsWithClient: isStream,
      isStream,
      isGone: () => true,
      whyEnded: () => null,
      toError: toErrorRecord,
    }).leave();
  return {
    service: () => started.service,
    url: () => started.url,
    client: () => client,
    nextModel,
    gate,
    sessionsOf,
    statesOf,
    runsOf,
    transcriptsOf,
    ask,
    abortAt,
    startDirectly,
    goAway,
  };
}
