import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { useKeys } from '../keys.ts';
import { LacksScope, ReachSwitch, useReach } from '../layout/reach.tsx';
import { Choice } from '../ui/choice.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { ERROR_WINDOWS, type ErrorFilter } from './error-filter.ts';
import { ErrorGroupRow, type Group } from './error-group.tsx';
import { sinceOf, type Window, windowWords } from './window.ts';

const READ_AGAIN_AFTER_MS = 15_000;

/** Why runs have failed, by cause. */
export function ErrorsPage(): ReactNode {
  const filter = useSearch({ from: '/errors' });
  const navigate = useNavigate({ from: '/errors' });
  const { reach } = useReach(filter.all);
  const window = filter.since ?? '1d';
  const change = (next: ErrorFilter): void => void navigate({ search: next, replace: true });
  const report = useErrors(filter, window, reach);
  const groups: readonly Group[] = report.data?.groups ?? [];
  const at = groups.findIndex(({ fingerprint }) => fingerprint === filter.group);
  const show = (index: number): void => {
    const { group: _, ...others } = filter;
    const next = groups[index]?.fingerprint;
    change({ ...others, ...(next !== undefined && { group: next }) });
  };
  useKeys('List', {
    j: ['Next cause', () => show(Math.min(groups.length - 1, at + 1))],
    k: ['Previous cause', () => show(Math.max(0, at - 1))],
    e: ['Fold the cause', () => show(-1)],
  });
  if (reach === null) return <LacksScope scopes="read or operator" />;
  return (
    <Page
      title="Errors"
      tools={
        <>
          <Choice
            label="Since"
            any="last 24 hours"
            value={filter.since}
            values={ERROR_WINDOWS}
            wordsOf={(since) => `last ${windowWords(since)}`}
            change={(since) =>
              change({ ...without(filter, 'since'), ...(since !== undefined && { since: since as '7d' }) })
            }
          />
          {filter.agent !== undefined && (
            <button type="button" className="button small" onClick={() => change(without(filter, 'agent'))}>
              agent {filter.agent} ×
            </button>
          )}
          <ReachSwitch all={filter.all} change={(all) => change({ ...without(filter, 'all'), ...(all && { all }) })} />
          {report.data?.complete === false && (
            <span className="text-dim">So many runs have failed that only the newest are counted.</span>
          )}
        </>
      }
    >
      {report.isPending ? (
        <SkeletonRows rows={8} height={56} />
      ) : report.isError && report.data === undefined ? (
        <Failure error={report.error} retry={() => void report.refetch()} />
      ) : groups.length === 0 ? (
        <Empty title={`No run has failed in the last ${windowWords(window)}`}>
          {window !== '30d' && (
            <button
              type="button"
              className="button"
              onClick={() => change({ ...without(filter, 'since'), since: '30d' })}
            >
              Look back 30 days
            </button>
          )}
        </Empty>
      ) : (
        <ul>
          {groups.map((group, index) => (
            <ErrorGroupRow
              key={group.fingerprint}
              group={group}
              window={window}
              isOpen={index === at}
              toggle={() => show(index === at ? -1 : index)}
              again={() => void report.refetch()}
            />
          ))}
        </ul>
      )}
    </Page>
  );
}

function without(filter: ErrorFilter, name: keyof ErrorFilter): ErrorFilter {
  const { [name]: _, ...others } = filter;
  return others;
}

const useErrors = ({ agent }: ErrorFilter, window: Window, reach: 'tenant' | 'all' | null) =>
  useQuery({
    queryKey: ['errors', reach, window, agent],
    queryFn: async ({ signal }): Promise<Readonly<{ complete: boolean; groups: readonly Group[] }>> => {
      const asked = { since: sinceOf(window), agent, signal };
      return reach === 'all' ? client.operator.errors(asked) : client.errors(asked);
    },
    enabled: reach !== null,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
