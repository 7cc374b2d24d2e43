import { BatonError, type DurableEvent, type StreamEvent } from '@baton-run/server/client';
import type { Query, QueryClient } from '@tanstack/react-query';
import { client } from '../api.ts';
import { whileVisible } from '../visible.ts';
import type { LiveText } from './live-text.ts';
import type { TranscriptStore } from './transcript-store.ts';

/** Changes are gathered for this time before the changed parts of the page are read again. */
const GATHER_MS = 120;

type Part = 'session' | 'transcript' | 'queue' | 'steps' | 'children' | 'context' | 'marks';

const PARTS: readonly (readonly [RegExp, readonly Part[]])[] = [
  [/^run:/, ['session', 'transcript', 'steps', 'queue']],
  [/^child:/, ['session', 'transcript', 'steps', 'children']],
  [/^step:completed$/, ['session', 'transcript', 'steps', 'context']],
  [/^step:/, ['transcript', 'steps', 'session']],
  [/^llm:(response|error)$/, ['transcript', 'steps']],
  [/^llm:tool-/, ['transcript', 'steps']],
  [/^message:(queued|changed|removed)$/, ['queue', 'session']],
  [/^message:/, ['queue', 'transcript']],
  [/^(prune:|context:pruned)/, ['marks', 'steps', 'context']],
  [/^compaction:/, ['session', 'transcript', 'marks', 'steps', 'context']],
  [/^(llm:switched|tools:|usage:)/, ['session', 'context']],
];

const ALL: readonly Part[] = ['session', 'transcript', 'queue', 'steps', 'children', 'context', 'marks'];

type Page = Readonly<{ sessionId: string; cache: QueryClient; transcript: TranscriptStore; live: LiveText }>;

/**
 * Keeps the page of a session fresh until the signal aborts: a durable event makes the page read its changed parts
 * again, a live event is shown at once.
 * @throws BatonError when the service refuses for good: the session or the key is gone
 */
export async function followSession(page: Page, signal: AbortSignal): Promise<void> {
  const renew = createRenewal(page, signal);
  await whileVisible(signal, async (seen) => {
    // A new stream sends the text of the open message from its beginning.
    page.live.reset();
    for await (const event of client.events(page.sessionId, { signal: seen })) take(page, event, renew);
  });
}

function take({ live, transcript }: Page, event: StreamEvent, renew: (parts: readonly Part[]) => void): void {
  if (event.type === 'session:snapshot') {
    if (event.data.reset) transcript.markStale();
    renew(event.data.reset ? ALL : ALL.filter((part) => part !== 'marks'));
  } else if (event.type === 'llm:chunk' || event.type === 'llm:thinking' || event.type === 'llm:tool-input') {
    live.take(event);
  } else {
    if (event.type === 'step:reset') live.drop(event.data.messageId);
    renew(partsOf(event));
  }
}

const partsOf = ({ type }: DurableEvent): readonly Part[] => PARTS.find(([pattern]) => pattern.test(type))?.[1] ?? [];

/** Whether the steps may still change: those of an ended run do not. */
const isLive = ({ meta }: Query): boolean => meta?.['isLive'] === true;

type Filters = Readonly<{ queryKey: readonly string[]; predicate?: (query: Query) => boolean }>;

/**
 * Reads what the page shows again, from now on. A first read that is still under way may be older than the event, and the
 * cache takes it for the renewal: it is followed by another one.
 */
async function readAgain(cache: QueryClient, filters: Filters): Promise<void> {
  const isFirstRead = ({ state }: Query): boolean => state.fetchStatus === 'fetching' && state.data === undefined;
  const isOlder = cache.getQueryCache().findAll(filters).some(isFirstRead);
  await cache.invalidateQueries(filters);
  if (isOlder) await cache.invalidateQueries(filters);
}

/** Reads parts of the page again, gathered, and never twice at the same time. */
function createRenewal({ sessionId, cache, transcript }: Page, signal: AbortSignal): (parts: readonly Part[]) => void {
  const due = new Set<Part>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const act = async (): Promise<void> => {
    const parts = new Set(due);
    due.clear();
    const invalidate = (name: string): Promise<void> => readAgain(cache, { queryKey: ['session', sessionId, name] });
    const work: Promise<unknown>[] = [];
    if (parts.has('transcript')) work.push(transcript.refresh());
    if (parts.has('session')) work.push(invalidate('head'), invalidate('runs'));
    if (parts.has('queue')) work.push(invalidate('queue'));
    if (parts.has('steps'))
      work.push(readAgain(cache, { queryKey: ['session', sessionId, 'steps'], predicate: isLive }));
    if (parts.has('children')) work.push(invalidate('children'));
    if (parts.has('context')) work.push(invalidate('context'));
    if (parts.has('marks')) transcript.markStale();
    await Promise.allSettled(work);
  };
  const schedule = (): void => {
    timer ??= setTimeout(async () => {
      await act();
      timer = undefined;
      if (due.size > 0 && !signal.aborted) schedule();
    }, GATHER_MS);
  };
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  return (parts) => {
    for (const part of parts) due.add(part);
    if (parts.length > 0 && !signal.aborted) schedule();
  };
}

/** Whether the session does not exist (any more). */
export const isGone = (error: unknown): boolean => error instanceof BatonError && error.code === 'not_found';
