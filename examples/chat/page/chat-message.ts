import { isToolUIPart, type UIMessage } from 'ai';

/** What the service tells beside the parts of an answer, and of a message that waits. */
type Metadata = Readonly<{
  runId?: string;
  /** What has become of the run, and why it did not come to its end. */
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

/** How full the context is, in tokens, with what was compressed before the page was opened. */
export type Meter = Readonly<{
  used: number;
  usable: number;
  compactions?: readonly Readonly<{ state: string; tokensBefore: number; tokensAfter: number | null }>[];
}>;

/** @throws Error with what the server said */
export async function readJson<Body>(path: string, init?: RequestInit): Promise<Body> {
  const response = await fetch(path, init);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** A chat as the service has it. @throws Error with what the server said */
export async function readMessages(id: string): Promise<ChatMessage[]> {
  const path = `/api/chat/${encodeURIComponent(id)}/messages`;
  return (await readJson<{ messages: ChatMessage[] }>(path)).messages;
}

/** The run whose answer is the newest of all; null: there is none. */
export const newestRun = (messages: readonly ChatMessage[]): string | null =>
  messages.findLast(({ role, id }) => role === 'assistant' && id.startsWith('run_'))?.id ?? null;

/** The service is at work on the newest message, or has just taken it. */
export function isBeingAnswered(messages: readonly ChatMessage[]): boolean {
  const last = messages.findLast((message) => !isQueued(message));
  if (last === undefined) return false;
  return last.role === 'user' || ['queued', 'running', 'cancelling'].includes(last.metadata?.status ?? '');
}

/** Why the newest answer did not come to its end; null: it did, or is being written. */
export const failureIn = (messages: readonly ChatMessage[]): string | null =>
  messages.at(-1)?.metadata?.error?.message ?? null;

const isQueued = ({ role, metadata }: ChatMessage): boolean =>
  role === 'user' && metadata?.queue?.position !== undefined;

/** Messages that waited when the service was asked, apart from those that were taken up. */
export type Waiting = Readonly<{
  messages: readonly ChatMessage[];
  /** Answers that come before theirs, by id, and whether one more does. */
  answers: ReadonlySet<string>;
  isOneToCome: boolean;
}>;

/** The chat as the service has it: what was said, and what waits. */
export function split(stored: readonly ChatMessage[]): Readonly<{ said: ChatMessage[]; waiting: Waiting }> {
  const said = stored.filter((message) => !isQueued(message));
  const answers = new Set(said.flatMap(({ role, id }) => (role === 'assistant' ? [id] : [])));
  const isOneToCome = said.at(-1)?.role === 'user';
  return { said, waiting: { messages: stored.filter(isQueued), answers, isOneToCome } };
}

/** The messages that wait for their turn: no answer has come since that is theirs. */
export function queuedIn(messages: readonly ChatMessage[], waiting: Waiting): readonly ChatMessage[] {
  const fresh = messages.filter(({ role, id }) => role === 'assistant' && !waiting.answers.has(id)).length;
  const earlier = fresh > (waiting.isOneToCome ? 1 : 0) ? [] : waiting.messages;
  const unanswered = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  return [...earlier, ...unanswered.filter(isQueued)];
}

/** An answer that somebody has stopped: there is no more of it. */
export const isStopped = ({ role, metadata }: ChatMessage): boolean =>
  role === 'assistant' && metadata?.status === 'cancelled';

/** The newest answer waits for a word on what it wants to do. */
export function isAsking(messages: readonly ChatMessage[]): boolean {
  const answer = messages.findLast(({ role }) => role === 'assistant');
  return answer?.parts.some((part) => isToolUIPart(part) && part.state === 'approval-requested') ?? false;
}

/** The newest numbers that came with an answer. */
export function meterIn(messages: readonly ChatMessage[]): Meter | undefined {
  return messages.findLast(({ metadata }) => metadata?.context !== undefined)?.metadata?.context;
}
