import { Link } from '@tanstack/react-router';
import { CornerDownRight } from 'lucide-react';
import type { ReactNode } from 'react';
import { useNow } from '../clock.ts';
import { clipped, cost, count, duration, plural } from '../format.ts';
import { waitWords } from '../pages/waits-for.ts';
import { State } from '../ui/state.tsx';
import type { Child } from './children.ts';

/** States that only children have are shown with the look of another state. */
const LOOKS: Readonly<Partial<Record<Child['status'], string>>> = { waiting: 'queued', refused: 'failed' };

/** The state whose look shows the state of the child. */
export const childState = ({ status }: Child): string => LOOKS[status] ?? status;

/** The first line of the child's task; empty as long as the child has no session. */
const taskOf = ({ session }: Child): string => clipped(session?.name ?? '', 200);

/** A child below the call that began it: a link into its session. */
export const ChildLine = ({ child }: Readonly<{ child: Child }>): ReactNode => (
  <ChildLink
    child={child}
    className="flex h-full w-full items-center gap-2 overflow-hidden pr-2 pl-3 text-sm whitespace-nowrap hover:bg-hover"
  >
    <CornerDownRight size={12} className="ml-3 flex-none text-dim" aria-hidden="true" />
    <ChildWords child={child} />
    <ChildNumbers child={child} />
  </ChildLink>
);

type LinkProps = Readonly<{ child: Child; className: string; children: ReactNode }>;

function ChildLink({ child, className, children }: LinkProps): ReactNode {
  const { session, agent, status } = child;
  const title = `${agent}: ${status.replaceAll('_', ' ')}\n${taskOf(child)}`;
  if (session === undefined) {
    return (
      <div className={className} title={title} data-child={child.callId}>
        {children}
      </div>
    );
  }
  return (
    <Link
      to="/sessions/$sessionId"
      params={{ sessionId: session.id }}
      search={{}}
      className={className}
      title={title}
      data-child={child.callId}
    >
      {children}
    </Link>
  );
}

function ChildWords({ child }: Readonly<{ child: Child }>): ReactNode {
  const { agent, status, mode, session } = child;
  const waitsFor = session?.overview.waitsFor ?? null;
  const words = status === 'running' && waitsFor !== null ? `waits for ${waitWords(waitsFor)}` : undefined;
  return (
    <span className="flex min-w-0 flex-1 items-center gap-2">
      <span className="max-w-2/5 flex-none truncate">{agent}</span>
      <span className="max-w-1/2 flex-none truncate" title={status === 'completed' ? status : undefined}>
        <State state={childState(child)}>
          {status === 'completed' ? <span className="sr-only">completed</span> : (words ?? (LOOKS[status] && status))}
        </State>
      </span>
      <span className="min-w-0 truncate text-dim" dir="auto">
        {mode === 'background' && 'in the background · '}
        {taskOf(child)}
      </span>
    </span>
  );
}

/** Tokens and cost of a child so far. Once the child has ended, those of its own children are included. */
function ChildNumbers({ child }: Readonly<{ child: Child }>): ReactNode {
  const { session, createdAt, endedAt, tokens } = child;
  const costUsd = endedAt === null ? session?.costUsd : child.costUsd;
  const used = endedAt === null ? session?.usage.totalTokens : (tokens ?? undefined);
  return (
    <>
      <span className="flex-none text-dim" title={used === undefined ? undefined : `${count(used)} tokens`}>
        {costUsd !== undefined && cost(costUsd)}
      </span>
      <span className="w-20 flex-none text-right whitespace-nowrap text-dim">
        {endedAt === null ? (
          <Lasting since={createdAt} />
        ) : (
          duration(Math.max(0, Date.parse(endedAt) - Date.parse(createdAt)))
        )}
      </span>
    </>
  );
}

const Lasting = ({ since }: Readonly<{ since: string }>): ReactNode =>
  duration(Math.max(0, useNow() - Date.parse(since)));

/** The children of a run in the overview of its session. */
export function ChildList({ tasks, total }: Readonly<{ tasks: readonly Child[]; total: number }>): ReactNode {
  if (tasks.length === 0) return null;
  return (
    <section aria-label="Tasks given to other agents">
      <h3 className="mb-1 text-sm text-dim">
        {plural(total, 'task')} given to other agents
        {total > tasks.length && `, of which these are the last ${count(tasks.length)}`}
      </h3>
      <ul className="-mx-3">
        {tasks.map((child) => (
          <li key={child.callId}>
            <ChildLink
              child={child}
              className="flex w-full flex-wrap items-center gap-x-2 px-3 py-1 text-sm hover:bg-hover"
            >
              <ChildWords child={child} />
              <ChildNumbers child={child} />
            </ChildLink>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Leads from a call to the session that it began. */
export function ChildOfCall({ child }: Readonly<{ child: Child }>): ReactNode {
  return (
    <ChildLink
      child={child}
      className="flex items-center gap-2 overflow-hidden rounded text-sm whitespace-nowrap hover:bg-hover"
    >
      <CornerDownRight size={12} className="flex-none text-dim" aria-hidden="true" />
      <ChildWords child={child} />
      <ChildNumbers child={child} />
    </ChildLink>
  );
}
