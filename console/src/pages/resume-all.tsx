import type { ListedSession } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { failureWords, plural } from '../format.ts';
import { notify } from '../notices.ts';
import { ActionDialog } from '../ui/dialog.tsx';
import { sinceOf, type Window } from './window.ts';

/** Sessions that one request may name, and resumes at the same time. */
const SESSIONS_OF_PAGE = 50;
const AT_ONCE = 4;

type Props = Readonly<{ fingerprint: string; window: Window; close: () => void; again: () => void }>;

/** Asks before it resumes every session that stopped with this cause and has not gone on since. */
export function ResumeAll({ fingerprint, window, close, again }: Props): ReactNode {
  const stopped = useQuery({
    queryKey: ['stopped', fingerprint, window],
    queryFn: ({ signal }) => readStopped(fingerprint, window, signal),
    staleTime: 0,
    gcTime: 0,
  });
  const ids = stopped.data;
  const resume = async (): Promise<void> => {
    if (ids === undefined) throw new Error('Wait until the sessions are found');
    if (ids.length === 0) return;
    const failures = await resumeEach(ids);
    notify(`Resumed ${plural(ids.length - failures.length, 'session')}`);
    again();
    if (failures.length > 0) {
      throw new Error(`${plural(failures.length, 'session')} did not go on. ${failureWords(failures[0])}`);
    }
  };
  return (
    <ActionDialog isOpen close={close} title="Resume them all?" act="Resume them all" run={resume}>
      {stopped.isError ? (
        <p role="alert" className="text-failed wrap-anywhere">
          {failureWords(stopped.error)}
        </p>
      ) : ids === undefined ? (
        <p className="text-dim">Looking for the sessions that have not gone on…</p>
      ) : ids.length === 0 ? (
        <p>Each session with this cause has gone on already: there is nothing to resume.</p>
      ) : (
        <p>
          {plural(ids.length, 'session')} stopped with this cause and {ids.length === 1 ? 'has' : 'have'} not gone on.
          Each gets a run of its own, which calls its model again.
        </p>
      )}
    </ActionDialog>
  );
}

/** The sessions of the newest 100 failures whose last run is still the failed one. */
async function readStopped(fingerprint: string, window: Window, signal: AbortSignal): Promise<readonly string[]> {
  const { groups } = await client.errors({ since: sinceOf(window), group: fingerprint, signal });
  const failed = new Set(groups[0]?.newest.map(({ runId }) => runId) ?? []);
  const ids = [...new Set(groups[0]?.newest.map(({ sessionId }) => sessionId) ?? [])];
  const found: ListedSession[] = [];
  for (let from = 0; from < ids.length; from += SESSIONS_OF_PAGE) {
    const page = await client.sessions.list({ ids: ids.slice(from, from + SESSIONS_OF_PAGE), signal });
    found.push(...page.sessions);
  }
  return found
    .filter(({ status, overview: { lastRun } }) => status === 'idle' && lastRun !== null && failed.has(lastRun.id))
    .map(({ id }) => id);
}

/** @returns why some could not be resumed */
async function resumeEach(ids: readonly string[]): Promise<readonly unknown[]> {
  const waiting = [...ids];
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      await client.sessions.resume(id).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failures;
}
