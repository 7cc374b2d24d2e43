import { AbstractChat, type ChatInit, type ChatState, DefaultChatTransport, type UIMessage } from 'ai';
import type { Agent, RejectedFile } from '../../src/agents/agent.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** The state of a chat in plain fields. The hooks of the UI frameworks keep it in their own reactive state. */
class PlainState implements ChatState<UIMessage> {
  status: ChatState<UIMessage>['status'] = 'ready';
  error: Error | undefined = undefined;
  messages: UIMessage[];
  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }
  pushMessage = (message: UIMessage): void => void this.messages.push(message);
  popMessage = (): void => void this.messages.pop();
  replaceMessage = (index: number, message: UIMessage): void => void this.messages.splice(index, 1, message);
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

/** `useChat` without React. */
export class PlainChat extends AbstractChat<UIMessage> {
  constructor({ messages = [], ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: new PlainState(messages) });
  }
}

/** What a page says that was built with the newest version of the AI SDK. */
export const SDK_7 = { 'x-ai-sdk-version': '7' } as const;

type TransportOptions = Readonly<{ body?: object; headers?: Record<string, string> }>;

export type ChatService = AsyncDisposable &
  Readonly<{
    service: TestService;
    url: string;
    chat: (id: string, init?: ChatInit<UIMessage> & TransportOptions) => PlainChat;
  }>;

export type ChatServiceOptions = Readonly<{
  environment?: Readonly<Record<string, string>>;
  /** The files of agents that cannot be used. */
  rejected?: () => readonly RejectedFile[];
}>;

/** Service, worker and API with these agents. The model of each agent is scripted by the agent's name. */
export async function startChatService(
  agents: readonly Partial<Agent>[],
  tools: readonly Tool[] = [],
  { environment = {}, rejected = () => [] }: ChatServiceOptions = {},
): Promise<ChatService> {
  await using stack = new AsyncDisposableStack();
  const backend = anyBackend();
  const defined = agents.map((agent) => agentSchema.parse({ model: `simulated/${agent.name}`, ...agent }));
  const service = stack.use(
    await startTestService({ backend, tools, agents: defined, environment: { BATON_PORT: '0', ...environment } }),
  );
  await service.startWorker();
  const { url } = stack.use(await startApi({ ...service.deps, agents: { ...createCatalogue(defined), rejected } }));
  const owned = stack.move();
  return {
    service,
    url,
    chat(id, { body, headers, ...init } = {}) {
      const sent = { ...(body && { body }), headers: { ...SDK_7, ...headers } };
      const transport = new DefaultChatTransport<UIMessage>({ api: `${url}/api/chat`, ...sent });
      return new PlainChat({ id, transport, ...init });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The text of the newest message. */
export const textOf = (message: UIMessage | undefined): string =>
  (message?.parts ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('|');

export const typesOf = (message: UIMessage | undefined): string[] => (message?.parts ?? []).map(({ type }) => type);

/** Resolves once the chat is ready or has failed. */
export const settled = (chat: PlainChat): Promise<true> =>
  eventually(async () => chat.status === 'ready' || chat.status === 'error', 'the chat is ready');
