import type { useChat } from '@ai-sdk/react';
import { isToolUIPart } from 'ai';
import { type RefObject, useEffect, useRef } from 'react';
import { type ChatMessage, isAsking, isBeingAnswered, newestRun, readMessages } from './chat-message.ts';

type ChatState = ReturnType<typeof useChat<ChatMessage>>;
type Show = (messages: ChatMessage[]) => void;

const PAUSE_MS = 1_000;
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/**
 * Keeps the page at what the service has: an answer that is being written is shown from its beginning, also after the
 * service was away, and so is what another page asks.
 * @param acts counts what a person has done on the page
 * @param show puts messages of the service on the page
 */
export function useFollow(chat: ChatState, acts: Readonly<RefObject<number>>, show: Show): void {
  const now = useRef(chat);
  now.current = chat;
  // biome-ignore lint/correctness/useExhaustiveDependencies: for as long as the page is open.
  useEffect(() => {
    const leave = new AbortController();
    void follow(now, acts, show, leave.signal);
    return () => leave.abort();
  }, []);
}

async function follow(
  now: Readonly<RefObject<ChatState>>,
  acts: Readonly<RefObject<number>>,
  show: Show,
  signal: AbortSignal,
): Promise<void> {
  const isIdle = (): boolean => now.current.status === 'ready' || now.current.status === 'error';
  // What ended before the page has read its messages is in them; what is being written is asked for first.
  await now.current.resumeStream();
  while (!signal.aborted) {
    const actsBefore = acts.current;
    try {
      const messages = isIdle() ? await readMessages(now.current.id) : null;
      // What a person has said or allowed by then would be taken back.
      if (messages !== null && isIdle() && acts.current === actsBefore && !isUnsent(now.current, messages)) {
        now.current.clearError();
        show(messages);
        if (isBeingAnswered(messages)) await now.current.resumeStream();
        else if (await nextBegins(now.current.id, newestRun(messages), signal)) continue;
      }
    } catch {
      // The service is away: it is asked again.
    }
    await pause();
  }
}

/**
 * The newest message was refused, or has not come to the service: it stays on the page, with the reason. So do answers to
 * some of the calls that the service asks about: they are sent with the last of them.
 */
function isUnsent({ status, messages: shown }: ChatState, stored: readonly ChatMessage[]): boolean {
  const last = shown.at(-1);
  if (last?.role === 'user') return status === 'error' && stored.at(-1)?.role !== 'user';
  return (
    last?.parts.some((part) => isToolUIPart(part) && part.state === 'approval-responded') === true && isAsking(shown)
  );
}

/** Waits until an answer begins that comes after this one, as long as the service lets it. */
async function nextBegins(id: string, after: string | null, signal: AbortSignal): Promise<boolean> {
  const path = `/api/chat/${encodeURIComponent(id)}/stream?after=${after ?? 'start'}`;
  const response = await fetch(path, { method: 'HEAD', signal });
  if (!response.ok) throw new Error(`HEAD ${path}: ${response.status}`);
  return response.status === 200;
}
