import { isToolUIPart, type UIMessage } from 'ai';

/** Metadata that the service sends with an answer, or with a queued message. */
type Metadata = Readonly<{
  runId?: string;
  /** Status of the run, and why it did not complete. */
  status?: string;
  error?: Readonly<{ code: string; message: string }>;
  context?: Readonly<{ used: number; usable: number }>;
  queue?: Readonly<{ waiting?: number; position?: number }>;
}>;

type Data = {
  queue: { position: number };
  compaction: {
    phase: 'compacting' | 'compacted' | 'compaction-failed';
    text: string;
    tokensBefore?: number;
    tokensAfter?: number;
  };
  pruning: { prunedCount: number; savedTokens: number };
};

export type ChatMessage = UIMessage<Metadata | undefined, Data>;

/** Tokens in the context and tokens usable, and those compacted before the page was opened. */
export type Meter = Readonly<{
  used: number;
  usable: number;
  compactions?: readonly Readonly<{ state: string; tokensBefore: number; tokensAfter: number | null }>[];
}>;

/** The version of the AI SDK on this page: the service sends what it reads. */
export const SDK = { 'x-ai-sdk-version': '7' };

/** @throws Error with the server's reason */
export async function readJson<Body>(path: string, init?: RequestInit): Promise<Body> {
  const response = await fetch(path, init);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** Reads a chat's messages from the service. @throws Error with the server's reason */
export async function readMessages(id: string): Promise<ChatMessage[]> {
  const path = `/api/chat/${encodeURIComponent(id)}/messages`;
  return (await readJson<{ messages: ChatMessage[] }>(path, { headers: SDK })).messages;
}

/** The run of the newest answer; null: no answer yet. */
export const newestRun = (messages: readonly ChatMessage[]): string | null =>
  messages.findLast(({ role, id }) => role === 'assistant' && id.startsWith('run_'))?.id ?? null;

/** Whether the service works on the newest message or has just accepted it. */
export function isBeingAnswered(messages: readonly ChatMessage[]): boolean {
  const last = messages.findLast((message) => !isQueued(message));
  if (last === undefined) return false;
  return last.role === 'user' || ['queued', 'running', 'cancelling'].includes(last.metadata?.status ?? '');
}

/** Why the newest answer did not complete; null: it did, or it is still streaming. */
export const failureIn = (messages: readonly ChatMessage[]): string | null =>
  messages.at(-1)?.metadata?.error?.message ?? null;

const isQueued = ({ role, metadata }: ChatMessage): boolean =>
  role === 'user' && metadata?.queue?.position !== undefined;

/** Queued messages at the time of the last request, without those already taken. */
export type Waiting = Readonly<{
  messages: readonly ChatMessage[];
  /** Ids of the answers that come before theirs, and whether one more is still to come. */
  answers: ReadonlySet<string>;
  isOneToCome: boolean;
}>;

/** Splits the chat into its transcript and its queue. */
export function split(stored: readonly ChatMessage[]): Readonly<{ said: ChatMessage[]; waiting: Waiting }> {
  const said = stored.filter((message) => !isQueued(message));
  const answers = new Set(said.flatMap(({ role, id }) => (role === 'assistant' ? [id] : [])));
  const isOneToCome = said.at(-1)?.role === 'user';
  return { said, waiting: { messages: stored.filter(isQueued), answers, isOneToCome } };
}

/** Messages that are still queued: no answer to them has begun. */
export function queuedIn(messages: readonly ChatMessage[], waiting: Waiting): readonly ChatMessage[] {
  const fresh = messages.filter(({ role, id }) => role === 'assistant' && !waiting.answers.has(id)).length;
  const earlier = fresh > (waiting.isOneToCome ? 1 : 0) ? [] : waiting.messages;
  const unanswered = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  return [...earlier, ...unanswered.filter(isQueued)];
}

/** Whether a person has stopped this answer. */
export const isStopped = ({ role, metadata }: ChatMessage): boolean =>
  role === 'assistant' && metadata?.status === 'cancelled';

/** Whether the newest answer has a call that requires an approval. */
export const isAsking = (messages: readonly ChatMessage[]): boolean =>
  callsIn(messages, 'approval-requested').length > 0;

/** Calls of the newest answer that a person has approved or denied and that have not run yet, by their ids. */
export const answeredIn = (messages: readonly ChatMessage[]): readonly string[] =>
  callsIn(messages, 'approval-responded');

/** Whether the service still asks for an approval that the person has given or denied on this page. */
export function isUndelivered(shown: readonly ChatMessage[], stored: readonly ChatMessage[]): boolean {
  const asked = callsIn(stored, 'approval-requested');
  return answeredIn(shown).some((id) => asked.includes(id));
}

function callsIn(messages: readonly ChatMessage[], state: 'approval-requested' | 'approval-responded'): string[] {
  const answer = messages.findLast(({ role }) => role === 'assistant');
  return (answer?.parts ?? []).flatMap((part) => (isToolUIPart(part) && part.state === state ? [part.toolCallId] : []));
}

/** The newest context numbers that an answer brought. */
export function meterIn(messages: readonly ChatMessage[]): Meter | undefined {
  return messages.findLast(({ metadata }) => metadata?.context !== undefined)?.metadata?.context;
}
