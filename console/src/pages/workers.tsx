import type { Fleet } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ExternalLink, TriangleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { clipped, count } from '../format.ts';
import { useCaller, useMay } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { useBoardPath } from '../login-secrets.ts';
import { servicePath } from '../place.ts';
import { Id } from '../ui/copy.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { State } from '../ui/state.tsx';
import { Since, Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';

const READ_AGAIN_AFTER_MS = 3_000;

/** The workers with the runs that they have in hand, and the queues from which they take jobs. */
export function WorkersPage(): ReactNode {
  const boardPath = useBoardPath();
  const mayOperate = useMay('operator');
  const hasBoard = useCaller()?.board === true;
  const fleet = useQuery({
    queryKey: ['workers'],
    queryFn: ({ signal }) => client.workers({ signal }),
    enabled: mayOperate,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  if (!mayOperate) return <LacksScope scopes="operator" />;
  return (
    <Page
      title="Workers and queues"
      tools={
        hasBoard && (
          <a className="button small" href={servicePath(boardPath)}>
            Jobs in Bull Board <ExternalLink size={12} aria-hidden="true" />
          </a>
        )
      }
    >
      {fleet.isPending ? (
        <SkeletonRows rows={8} height={32} />
      ) : fleet.isError && fleet.data === undefined ? (
        <Failure error={fleet.error} retry={() => void fleet.refetch()} />
      ) : (
        <div className="flex max-w-6xl flex-col gap-6 p-3">
          <Unattended fleet={fleet.data} />
          <Queues queues={fleet.data.queues} hasBoard={hasBoard} />
          <Workers workers={fleet.data.workers} />
        </div>
      )}
    </Page>
  );
}

/** Warns of kinds of jobs that no living worker takes. */
function Unattended({ fleet: { workers, queues } }: Readonly<{ fleet: Fleet }>): ReactNode {
  const alone = queues.filter(({ kind }) => !workers.some(({ kinds, isAlive }) => isAlive && kinds.includes(kind)));
  if (alone.length === 0) return null;
  return (
    <p role="alert" className="flex items-start gap-2 text-failed">
      <TriangleAlert size={14} className="mt-1 flex-none" aria-hidden="true" />
      <span>
        No worker takes jobs of the kind {alone.map(({ kind }) => kind).join(', ')}: that work waits. Start one with{' '}
        <code className="font-mono text-sm">npm run -s baton -- worker</code>.
      </span>
    </p>
  );
}

function Queues({ queues, hasBoard }: Readonly<{ queues: Fleet['queues']; hasBoard: boolean }>): ReactNode {
  const boardPath = useBoardPath();
  const cannotBeReached = queues.some(({ waiting }) => waiting === null);
  return (
    <Wide label="Queues">
      <h2 className="pb-1">Queues</h2>
      <table className="table">
        <thead>
          <tr>
            <th>Kind</th>
            <th className="number">Waiting</th>
            <th className="number">Delayed</th>
            <th className="number">Active</th>
            <th className="number">Failed</th>
            <th className="number" title="Unclaimed work, by Postgres">
              Due
            </th>
            <th className="number">Oldest waits for</th>
          </tr>
        </thead>
        <tbody>
          {queues.map(({ kind, waiting, delayed, active, failed, due, oldestDueAt }) => (
            <tr key={kind}>
              <td>
                {hasBoard ? (
                  <a className="text-accent underline underline-offset-2" href={servicePath(boardPath)}>
                    {kind}
                  </a>
                ) : (
                  kind
                )}
              </td>
              <Jobs value={waiting} />
              <Jobs value={delayed} />
              <Jobs value={active} />
              <Jobs value={failed} isBad />
              <Jobs value={due} />
              <td className="number">
                {oldestDueAt === null ? <span className="text-dim">none</span> : <Since at={oldestDueAt} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {cannotBeReached && <p className="pt-1 text-failed">A queue cannot be reached: its jobs are not counted.</p>}
    </Wide>
  );
}

function Jobs({ value, isBad }: Readonly<{ value: number | null; isBad?: boolean }>): ReactNode {
  const look = value === 0 ? 'text-dim' : isBad === true ? 'text-failed' : '';
  return (
    <td className={`number ${look}`} title={value === null ? 'The queue cannot be reached' : `${count(value)} jobs`}>
      {value === null ? '?' : count(value)}
    </td>
  );
}

type Worker = Fleet['workers'][number];

function Workers({ workers }: Readonly<{ workers: readonly Worker[] }>): ReactNode {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string): void =>
    setOpen((before) =>
      before.has(id) ? new Set([...before].filter((each) => each !== id)) : new Set([...before, id]),
    );
  if (workers.length === 0) {
    return (
      <Empty title="No worker has ever registered">
        <p>
          Messages are accepted and wait. Start a worker with{' '}
          <code className="font-mono text-sm">npm run -s baton -- worker</code>, or all of the service with{' '}
          <code className="font-mono text-sm">npm start</code>.
        </p>
      </Empty>
    );
  }
  return (
    <Wide label="Workers">
      <h2 className="pb-1">Workers</h2>
      <table className="table">
        <thead>
          <tr>
            <th>Worker</th>
            <th>State</th>
            <th>Takes</th>
            <th className="number" title="Version of the job protocol">
              Version
            </th>
            <th className="number">In hand</th>
            <th className="number">Last sign of life</th>
            <th className="number">Alive since</th>
          </tr>
        </thead>
        {workers.map((worker) => (
          <WorkerRows key={worker.id} worker={worker} isOpen={open.has(worker.id)} toggle={() => toggle(worker.id)} />
        ))}
      </table>
    </Wide>
  );
}

function WorkerRows({
  worker,
  isOpen,
  toggle,
}: Readonly<{ worker: Worker; isOpen: boolean; toggle: () => void }>): ReactNode {
  const { id, kinds, engine, isAlive, since, seenAt, inHand, runs } = worker;
  return (
    <tbody>
      <tr>
        <td className="max-w-72 truncate font-mono text-xs" title={id}>
          {clipped(id, 80)}
        </td>
        <td>
          <State state={isAlive ? 'alive' : 'dead'} />
        </td>
        <td>{kinds.join(', ')}</td>
        <td className="number">{engine}</td>
        <td className="number">
          {inHand === 0 ? (
            <span className="text-dim">nothing</span>
          ) : (
            <button type="button" className="bare px-1 text-ink!" aria-expanded={isOpen} onClick={toggle}>
              {count(inHand)} {inHand === 1 ? 'run' : 'runs'}
            </button>
          )}
        </td>
        <td className="number">
          <Time at={seenAt} />
        </td>
        <td className="number">
          <Time at={since} />
        </td>
      </tr>
      {isOpen &&
        runs.map((run) => (
          <tr key={run.runId} className="bg-panel text-sm">
            <td colSpan={2} className="pl-6!">
              <InHand run={run} />
            </td>
            <td>{run.kind === null ? '' : run.kind === 'step' ? `step ${run.step}` : run.kind}</td>
            <td colSpan={2}>
              <State state={run.status} />
            </td>
            <td colSpan={2} className="number text-dim">
              {run.leaseExpiresAt !== null && (
                <>
                  lease ends <Time at={run.leaseExpiresAt} />
                </>
              )}
            </td>
          </tr>
        ))}
      {isOpen && inHand > runs.length && (
        <tr className="bg-panel text-sm text-dim">
          <td colSpan={7} className="pl-6!">
            and {count(inHand - runs.length)} more
          </td>
        </tr>
      )}
    </tbody>
  );
}

function InHand({ run: { runId, sessionId, tenant } }: Readonly<{ run: Worker['runs'][number] }>): ReactNode {
  const caller = useCaller();
  const isMine = caller?.tenant === tenant && caller.scopes.includes('read');
  return (
    <span className="flex items-center gap-2">
      <Id id={runId} /> of
      {isMine ? (
        <Link
          to="/sessions/$sessionId"
          params={{ sessionId }}
          className="font-mono text-xs text-accent underline underline-offset-4"
          title={sessionId}
        >
          ses_…{sessionId.slice(-8)}
        </Link>
      ) : (
        <span>
          <Id id={sessionId} /> of tenant {tenant}
        </span>
      )}
    </span>
  );
}
