import type { ContextMeter } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { cost, plural } from '../format.ts';
import { causeWords, hasFailed } from './context-bins.ts';
import { contextQuery, useOpened } from './session-context.tsx';

/** From this number on Baton waits until the view has grown. */
const FAILURES_BEFORE_GROWTH = 2;

type Compaction = ContextMeter['compactions'][number];

/** The newest compactions up to the last one that succeeded, newest first. */
function failedInRow(compactions: readonly Compaction[]): readonly Compaction[] {
  const ended = compactions.filter(({ state }) => state !== 'running');
  const success = ended.findIndex((one) => !hasFailed(one));
  return success === -1 ? ended : ended.slice(0, success);
}

/** Says that the context is not compacted although it should be, why, and what the tries have cost. */
export function CompactionNotice(): ReactNode {
  const { sessionId } = useOpened();
  const { data } = useQuery(contextQuery(sessionId));
  const failed = failedInRow(data?.compactions ?? []);
  const [newest] = failed;
  if (newest === undefined) return null;
  const spent = failed.every(({ costUsd }) => costUsd !== null)
    ? failed.reduce((sum, { costUsd }) => sum + (costUsd ?? 0), 0)
    : null;
  const calls = failed.reduce((sum, { attempts }) => sum + attempts, 0);
  return (
    <div role="status" className="flex items-start gap-2 border-t border-line bg-panel px-3 py-1">
      <X size={13} strokeWidth={3} className="mt-1 flex-none text-failed" aria-hidden="true" />
      <p className="min-w-0 wrap-anywhere">
        <span className="text-failed">
          {failed.length === 1 ? 'The last compaction failed' : `The last ${failed.length} compactions failed`}
        </span>
        : {causeWords(newest.error)}{' '}
        <span className="text-dim">
          {plural(calls, 'model call')}, {cost(spent)}.{' '}
          {failed.length < FAILURES_BEFORE_GROWTH
            ? 'The run goes on without it, and tries again.'
            : 'The run goes on without it, and tries again once the context has grown by a tenth.'}
        </span>
      </p>
    </div>
  );
}
