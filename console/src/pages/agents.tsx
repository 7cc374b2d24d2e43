import type { Agent, RejectedAgentFile } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { CircleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { clipped } from '../format.ts';
import { useMay, useRefusal } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';

const READ_AGAIN_AFTER_MS = 30_000;

/** The agents of this service, with what keeps them from working. */
export function AgentsPage(): ReactNode {
  const mayRead = useMay('read');
  const list = useQuery({
    queryKey: ['agents'],
    queryFn: ({ signal }) => client.agents({ signal }),
    enabled: mayRead,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const agents = list.data?.agents ?? [];
  if (!mayRead) return <LacksScope scopes="read" />;
  return (
    <Page title="Agents">
      {list.isPending ? (
        <SkeletonRows rows={6} height={72} />
      ) : list.isError && list.data === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : agents.length === 0 && list.data?.rejected.length === 0 ? (
        <Empty title="There is no agent">
          <p>
            An agent is a YAML file with a name and a model. Put one into the folder of the agents (
            <code className="font-mono text-sm">BATON_AGENTS_DIR</code>): the service takes it up at once.
          </p>
        </Empty>
      ) : (
        <>
          <Rejected files={list.data?.rejected ?? []} />
          <ul>
            {agents.map((agent) => (
              <AgentItem key={agent.name} agent={agent} />
            ))}
          </ul>
        </>
      )}
    </Page>
  );
}

/** Says which changed files are not taken up, and why. */
function Rejected({ files }: Readonly<{ files: readonly RejectedAgentFile[] }>): ReactNode {
  if (files.length === 0) return null;
  return (
    <section role="alert" className="border-b border-line px-3 py-3">
      <p className="flex items-start gap-1.5 text-failed">
        <CircleAlert size={14} className="mt-1 flex-none" aria-hidden="true" />
        <span>A change of the agents' files is not taken up: the agents stay as they were until it is mended.</span>
      </p>
      <ul className="mt-1 flex flex-col gap-1 pl-5">
        {files.map(({ file, keys, problem }) => (
          <li key={`${file}/${problem}`} className="wrap-anywhere" dir="auto">
            <span className="font-mono text-sm">{clipped(file, 300)}</span>
            {keys.length > 0 && <span className="text-dim"> · {clipped(keys.join(', '), 500)}</span>}
            <p className="text-dim whitespace-pre-wrap">
              {problem === null
                ? 'The log of the service says why. A key with the scope admin or operator shows it here.'
                : clipped(problem, 2_000)}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The strategy, its thresholds and the summarizer, in words. */
function contextWords({ strategy, summarizer, ...percents }: Agent['context']): string {
  const { pruneAtPercent, compactAtPercent, compactByPercent } = percents;
  const asked = strategy === 'manual' ? 'compacts only when asked' : 'compacts when a request does not fit';
  const compacts =
    compactAtPercent === null
      ? asked
      : compactAtPercent === compactByPercent
        ? `compacts from ${compactAtPercent} %`
        : `compacts from ${compactAtPercent} % where it pays, from ${compactByPercent} % in any case`;
  const prunes = pruneAtPercent === null ? 'prunes only when asked' : `prunes from ${pruneAtPercent} %`;
  const writer = summarizer === '__same__' ? 'the same model' : summarizer;
  const noWriter = strategy === 'middle-removal' || strategy.startsWith('module:');
  return clipped([strategy, compacts, prunes, ...(noWriter ? [] : [`summaries by ${writer}`])].join(' · '), 500);
}

/** More are shown on request. */
const SHOWN_TOOLS = 12;

function AgentItem({ agent }: Readonly<{ agent: Agent }>): ReactNode {
  const { name, version, description, model, models, tools, leftOutTools, problems } = agent;
  const refused = useRefusal('write');
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? tools : tools.slice(0, SHOWN_TOOLS);
  return (
    <li className="flex flex-wrap items-start gap-x-6 gap-y-2 border-b border-line px-3 py-3">
      <div className="min-w-0 basis-64 grow">
        <h2 className="wrap-anywhere" dir="auto">
          {clipped(name, 200)} <span className="font-mono text-xs font-normal text-dim">{version.slice(0, 8)}</span>
        </h2>
        <p className="text-dim wrap-anywhere" dir="auto">
          {description === null ? 'No description' : clipped(description, 500)}
        </p>
        {leftOutTools.map(({ server, tool, reason }) => (
          <p key={`${server}/${tool}/${reason}`} className="mt-1 text-dim wrap-anywhere" dir="auto">
            Left out: {clipped(tool, 200)} of the MCP server {clipped(server, 100)}: {clipped(reason, 500)}
          </p>
        ))}
        {problems.map((problem) => (
          <p key={problem} className="mt-1 flex items-start gap-1.5 text-failed">
            <CircleAlert size={14} className="mt-1 flex-none" aria-hidden="true" />
            <span className="min-w-0 wrap-anywhere">{clipped(problem, 2_000)}</span>
          </p>
        ))}
      </div>
      <dl className="grid min-w-0 basis-80 grow grid-cols-[max-content_1fr] items-baseline gap-x-3">
        <dt className="text-dim">Model</dt>
        <dd className="truncate font-mono text-sm" title={model}>
          {clipped(model, 200)}
        </dd>
        {models.length > 0 && <dt className="text-dim">may use</dt>}
        {models.length > 0 && <dd className="font-mono text-sm wrap-anywhere">{clipped(models.join(', '), 500)}</dd>}
        <dt className="text-dim">Context</dt>
        <dd className="text-sm wrap-anywhere">{contextWords(agent.context)}</dd>
        <dt className="text-dim">Tools</dt>
        <dd className="font-mono text-sm wrap-anywhere">
          {tools.length === 0 ? <span className="font-sans text-dim">none</span> : clipped(shown.join(', '), 4_000)}
          {shown.length < tools.length && (
            <button type="button" className="bare ml-2 font-sans" onClick={() => setWhole(true)}>
              and {tools.length - shown.length} more
            </button>
          )}
        </dd>
      </dl>
      <div className="flex gap-2">
        <Link to="/sessions" search={{ agent: name }} className="button small">
          Sessions
        </Link>
        {refused === undefined && (
          <Link to="/playground" search={{ agent: name }} className="button small">
            Talk to it
          </Link>
        )}
      </div>
    </li>
  );
}
