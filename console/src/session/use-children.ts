import type { Run } from '@baton-run/server/client';
import { useQueries, useQueryClient } from '@tanstack/react-query';
import { createContext, useEffect, useMemo, useRef } from 'react';
import { client } from '../api.ts';
import { onActivity } from '../layout/activity.ts';
import type { Child, ChildrenOfCalls } from './children.ts';
import { useOpened } from './session-context.tsx';

/** For the calls of the transcript and of the inspector. */
export const Children = createContext<ChildrenOfCalls>(new Map());

/** The children of these runs, kept fresh while they are at work. */
export function useChildren(runs: readonly Run[]): ChildrenOfCalls {
  const { sessionId } = useOpened();
  const cache = useQueryClient();
  const delegating = runs.filter(({ childCount }) => childCount > 0);
  const lists = useQueries({
    queries: delegating.map(({ id }) => ({
      queryKey: ['session', sessionId, 'children', id],
      queryFn: ({ signal }: Readonly<{ signal: AbortSignal }>) => readChildren(id, signal),
      staleTime: 10_000,
    })),
    combine: listsOf,
  });
  const children = useMemo(() => new Map(lists.flat().map((child) => [child.callId, child] as const)), [lists]);
  const atWork = useRef<ReadonlySet<string>>(new Set());
  atWork.current = new Set(
    [...children.values()].flatMap((child) => (child.endedAt === null ? (child.sessionId ?? []) : [])),
  );
  useEffect(
    () =>
      onActivity((change) => {
        const isTouched = change === 'all' || change.sessions.some((id) => atWork.current.has(id));
        if (isTouched) void cache.invalidateQueries({ queryKey: ['session', sessionId, 'children'] });
      }),
    [cache, sessionId],
  );
  return children;
}

const listsOf = (results: readonly Readonly<{ data: readonly Child[] | undefined }>[]): (readonly Child[])[] =>
  results.map(({ data }) => data ?? []);

/** As many as one list of sessions may ask for. */
const IDS_OF_LIST = 50;

async function readChildren(runId: string, signal: AbortSignal): Promise<readonly Child[]> {
  const { children = [] } = await client.runs.get(runId, { signal });
  const ids = [...new Set(children.flatMap(({ sessionId }) => sessionId ?? []))];
  const lists = Array.from({ length: Math.ceil(ids.length / IDS_OF_LIST) }, (_, no) =>
    client.sessions.list({ ids: ids.slice(no * IDS_OF_LIST, (no + 1) * IDS_OF_LIST), limit: IDS_OF_LIST, signal }),
  );
  const listed = (await Promise.all(lists)).flatMap(({ sessions }) => sessions);
  const byId = new Map(listed.map((session) => [session.id, session]));
  return children.map((child) => ({ ...child, parentRunId: runId, session: byId.get(child.sessionId ?? '') }));
}
