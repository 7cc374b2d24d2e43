import { BatonError, type ListedSession, type Run } from '@baton-run/server/client';
import { infiniteQueryOptions, queryOptions, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import { client } from '../api.ts';
import { followSession } from './follow-session.ts';
import { createLiveText, type LiveMessage, type LiveText } from './live-text.ts';
import { createTranscriptStore, type TranscriptStore } from './transcript-store.ts';

type Opened = Readonly<{ sessionId: string; transcript: TranscriptStore; live: LiveText }>;

const Context = createContext<Opened | null>(null);

/** The session that the page shows. */
export function useOpened(): Opened {
  const opened = useContext(Context);
  if (opened === null) throw new Error('only within a page of a session');
  return opened;
}

/**
 * Opens a session for the parts of its page, and follows it.
 * @param ended called when the service refuses to send more events of the session
 */
export function OpenSession({
  sessionId,
  ended,
  children,
}: Readonly<{ sessionId: string; ended: (error: unknown) => void; children: ReactNode }>): ReactNode {
  const cache = useQueryClient();
  const [opened, open] = useState<Opened | null>(null);
  useEffect(() => {
    const over = new AbortController();
    const transcript = createTranscriptStore((place) => client.messages(sessionId, place));
    const live = createLiveText();
    open({ sessionId, transcript, live });
    void transcript.refresh();
    void followSession({ sessionId, cache, transcript, live }, over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) ended(error);
    });
    return () => {
      over.abort();
      transcript.close();
    };
  }, [cache, sessionId, ended]);
  if (opened === null || opened.sessionId !== sessionId) return null;
  return <Context value={opened}>{children}</Context>;
}

/** Renders anew with each change of the transcript. */
export function useTranscript(): TranscriptStore {
  const { transcript } = useOpened();
  useSyncExternalStore(transcript.subscribe, transcript.version);
  return transcript;
}

/** The message that the model is writing; null: it writes none. */
export function useLive(): LiveMessage | null {
  const { live } = useOpened();
  return useSyncExternalStore(live.subscribe, live.current);
}

/** When the first piece of this message came, if the model is writing it; null: it is not, or nothing came yet. */
export function useFirstPieceMs(messageId: string): number | null {
  const { live } = useOpened();
  return useSyncExternalStore(live.subscribe, () => {
    const current = live.current();
    return current?.messageId === messageId ? current.firstAtMs : null;
  });
}

/** The session with its state. */
export const headQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ['session', sessionId, 'head'],
    queryFn: async ({ signal }): Promise<ListedSession> => {
      const { sessions } = await client.sessions.list({ ids: [sessionId], signal });
      const [session] = sessions;
      if (session !== undefined) return session;
      await client.sessions.get(sessionId, { signal });
      throw new BatonError('not_found', 'The session is gone', { status: 404 });
    },
    staleTime: 10_000,
  });

/** The session, once it is known. */
export const useHead = (): ListedSession | undefined => useQuery(headQuery(useOpened().sessionId)).data;

const RUNS_OF_PAGE = 20;

/** The runs of the session, newest first, page by page. */
export const runsQuery = (sessionId: string) =>
  infiniteQueryOptions({
    queryKey: ['session', sessionId, 'runs'],
    queryFn: ({ pageParam, signal }) => client.runs.list({ sessionId, limit: RUNS_OF_PAGE, cursor: pageParam, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    staleTime: 10_000,
  });

/** The newest run, which is the active one if there is any; undefined: none, or not known yet. */
export const useNewestRun = (): Run | undefined =>
  useInfiniteQuery(runsQuery(useOpened().sessionId)).data?.pages[0]?.runs[0];

export const contextQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ['session', sessionId, 'context'],
    queryFn: ({ signal }) => client.sessions.context(sessionId, { signal }),
    staleTime: 10_000,
  });
