import { isToolUIPart, type UIMessage } from 'ai';

/** What the service tells beside the parts of an answer, and of a message that waits. */
type Metadata = Readonly<{
  runId?: string;
  /** What has become of the run. */
  status?: string;
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

/** The messages that wait for their turn: they were sent while the agent was at work, and no answer has come since. */
export function queuedIn(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const unanswered = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  return unanswered.filter(({ metadata }) => metadata?.queue?.position !== undefined);
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
