import type { useChat } from '@ai-sdk/react';
import { type RefObject, useEffect, useRef } from 'react';
import { type ChatMessage, isAsking, isBeingAnswered, isUndelivered, newestRun, readMessages } from './chat-message.ts';

type ChatState = ReturnType<typeof useChat<ChatMessage>>;
type Show = (messages: ChatMessage[]) => void;

const PAUSE_MS = 1_000;
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/**
 * Keeps the page equal to the service's state: it shows a streaming answer from its beginning, also after an outage,
 * and messages from other pages.
 * @param acts counts the actions of the person on this page
 * @param show replaces the messages on the page
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
  // The stream is resumed before the messages are read: an answer that ends in between is then among the messages. An
  // answer that asks has no stream that goes on. Its replay would undo an approval that the person gives meanwhile.
  if (!isAsking(now.current.messages)) await now.current.resumeStream();
  while (!signal.aborted) {
    const actsBefore = acts.current;
    try {
      const messages = isIdle() ? await readMessages(now.current.id) : null;
      // Otherwise the older state would undo an action that the person took meanwhile.
      if (messages !== null && isIdle() && acts.current === actsBefore && !isUnsent(now.current, messages)) {
        now.current.clearError();
        show(messages);
        if (isBeingAnswered(messages)) await now.current.resumeStream();
        else if (await nextBegins(now.current.id, newestRun(messages), signal)) continue;
      }
    } catch {
      // The service is unavailable: the loop tries again.
    }
    await pause();
  }
}

/**
 * Whether the newest message or the answers to calls were refused or did not reach the service; they stay on the page
 * with the reason. Answers to only some of the open calls count too: the page sends them together with the last one.
 */
function isUnsent({ status, messages: shown }: ChatState, stored: readonly ChatMessage[]): boolean {
  if (shown.at(-1)?.role === 'user') return status === 'error' && stored.at(-1)?.role !== 'user';
  return isUndelivered(shown, stored);
}

/** Waits until a newer answer begins, for as long as the service holds the request. */
async function nextBegins(id: string, after: string | null, signal: AbortSignal): Promise<boolean> {
  const path = `/api/chat/${encodeURIComponent(id)}/stream?after=${after ?? 'start'}`;
  const response = await fetch(path, { method: 'HEAD', signal });
  if (!response.ok) throw new Error(`HEAD ${path}: ${response.status}`);
  return response.status === 200;
}
