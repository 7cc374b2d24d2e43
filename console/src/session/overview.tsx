import { useQuery } from '@tanstack/react-query';
import { type ReactNode, use } from 'react';
import { client } from '../api.ts';
import { cost, count, duration, plural } from '../format.ts';
import { Id } from '../ui/copy.tsx';
import { SessionLink } from '../ui/session-link.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { ChildList } from './child-row.tsx';
import { childrenOfRun } from './children.ts';
import { ContextTable } from './context-meter.tsx';
import { jsonText, LongText } from './long-text.tsx';
import { contextQuery, useHead, useNewestRun, useOpened } from './session-context.tsx';
import { Figure, Figures } from './usage-tab.tsx';
import { Children } from './use-children.ts';

/** All of the session: what stands in the inspector while no step is chosen. */
export function Overview(): ReactNode {
  const session = useHead();
  if (session === undefined) return null;
  const { usage } = session;
  return (
    <div className="flex h-full flex-col gap-4 overflow-auto p-3" data-scroller="">
      <h2 className="sr-only">The session</h2>
      <p className="text-dim">Choose a step to see what the model was shown, and what it answered.</p>
      <Figures words="Session">
        <Figure words="id" value={<Id id={session.id} chars={12} />} />
        {session.externalKey !== null && (
          <Figure words="external key" value={<Id id={session.externalKey} chars={40} />} />
        )}
        <Figure words="agent" value={<AgentName name={session.agent} />} />
        {session.parentSessionId !== null && (
          <Figure words="task of" value={<SessionLink id={session.parentSessionId} />} />
        )}
        {session.forkedFrom !== null && (
          <Figure words="fork of" value={<SessionLink id={session.forkedFrom.sessionId} />} />
        )}
        {session.overrides.model !== undefined && <Figure words="model instead" value={session.overrides.model} />}
        <Figure words="created" value={<Time at={session.createdAt} />} />
        <Figure words="last change" value={<Time at={session.updatedAt} />} />
        {session.expiresAt !== null && <Figure words="is deleted" value={<Time at={session.expiresAt} />} />}
        {Object.entries(session.metadata).map(([name, value]) => (
          <Figure key={name} words={name} value={value} />
        ))}
      </Figures>
      <Figures words="Used so far">
        <Figure words="in" value={`${count(usage.inputTokens)} tokens`} />
        <Figure words="cached in" value={`${count(usage.cacheReadTokens)} tokens`} />
        <Figure words="out" value={`${count(usage.outputTokens)} tokens`} />
        <Figure
          words="cost"
          value={session.costUsd === null ? 'unknown: the price of some call is not known' : cost(session.costUsd)}
        />
        <Compactions />
      </Figures>
      <RunFigures />
      <RunChildren />
      <RunResult />
      <section>
        <h3 className="mb-1 text-sm text-dim">Context of the next request</h3>
        <ContextTable />
      </section>
    </div>
  );
}

/** The compactions of the session, those that failed and the part of the cost that both had. */
function Compactions(): ReactNode {
  const { data } = useQuery(contextQuery(useOpened().sessionId));
  if (data === undefined) return null;
  const { completed, failed, costUsd, failedCostUsd } = data.compactionSums;
  return (
    <>
      <Figure words="compactions" value={count(completed)} />
      {failed > 0 && (
        <Figure
          words="failed compactions"
          value={
            <span className="text-failed">
              {count(failed)}
              {failedCostUsd !== 0 && ` for ${cost(failedCostUsd)}`}
            </span>
          }
        />
      )}
      {completed + failed > 0 && <Figure words="cost of compactions" value={cost(costUsd)} />}
    </>
  );
}

/** The name of the agent; that it is gone, if it is no longer configured. */
function AgentName({ name }: Readonly<{ name: string }>): ReactNode {
  const { data } = useQuery({
    queryKey: ['agents'],
    queryFn: ({ signal }) => client.agents({ signal }),
    staleTime: 60_000,
  });
  const isGone = data !== undefined && !data.agents.some((agent) => agent.name === name);
  return (
    <>
      {name}
      {isGone && (
        <span className="block text-sm text-waiting">No longer configured: the session goes on with its own copy.</span>
      )}
    </>
  );
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'incomplete']);

/** The result of the newest run, if it was asked for one that fits a schema. Lists of runs leave it out. */
function RunResult(): ReactNode {
  const run = useNewestRun();
  const isEnded = run !== undefined && ENDED.has(run.status);
  const { data } = useQuery({
    queryKey: ['run', run?.id ?? ''],
    queryFn: ({ signal }) => client.runs.get(run?.id ?? '', { signal }),
    enabled: isEnded,
    staleTime: 60_000,
  });
  const value = isEnded ? data?.output?.value : undefined;
  if (value === undefined) return null;
  return (
    <section aria-label="Result">
      <h3 className="mb-1 text-sm text-dim">Result that fits the requested schema</h3>
      <LongText text={jsonText(value)} />
    </section>
  );
}

/** The tasks that the newest run has given to other agents, in the order of its calls. */
function RunChildren(): ReactNode {
  const run = useNewestRun();
  const children = use(Children);
  if (run === undefined || run.childCount === 0) return null;
  return <ChildList tasks={childrenOfRun(children, run.id)} total={run.childCount} />;
}

function RunFigures(): ReactNode {
  const run = useNewestRun();
  if (run === undefined) return null;
  const { startedAt, finishedAt, maxSteps, maxTokens, maxCostUsd, deadlineAt } = run;
  return (
    <Figures words="Newest run">
      <Figure words="id" value={<Id id={run.id} chars={12} />} />
      <Figure words="status" value={<State state={run.status} />} />
      <Figure
        words="steps"
        value={
          maxSteps === null ? plural(run.steps, 'step') : `${count(run.steps)} of at most ${plural(maxSteps, 'step')}`
        }
      />
      <Figure
        words="tokens"
        value={`${count(run.usage.totalTokens)}${maxTokens === null ? '' : ` of at most ${count(maxTokens)}`} tokens`}
      />
      <Figure
        words="cost"
        value={`${cost(run.costUsd)}${maxCostUsd === null ? '' : ` of at most ${cost(maxCostUsd)}`}`}
      />
      {deadlineAt !== null && <Figure words="deadline" value={<Time at={deadlineAt} />} />}
      {startedAt !== null && <Figure words="began" value={<Time at={startedAt} />} />}
      {startedAt !== null && finishedAt !== null && (
        <Figure words="took" value={duration(Date.parse(finishedAt) - Date.parse(startedAt))} />
      )}
    </Figures>
  );
}
