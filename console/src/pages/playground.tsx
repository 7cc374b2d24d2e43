import type { Agent } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from 'react';
import { client } from '../api.ts';
import { clipped, failureWords } from '../format.ts';
import { useMay, useRefusal } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { useSendOnce } from '../send-once.ts';
import { Empty, Failure } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';

/** Choose an agent and talk to it. The conversation goes on at the page of its session. */
export function PlaygroundPage(): ReactNode {
  const mayRead = useMay('read');
  const { agent: asked } = useSearch({ from: '/playground' });
  const navigate = useNavigate({ from: '/playground' });
  const list = useQuery({ queryKey: ['agents'], queryFn: ({ signal }) => client.agents({ signal }), enabled: mayRead });
  if (!mayRead) return <LacksScope scopes="read" />;
  const agents = list.data?.agents ?? [];
  const chosen = agents.find(({ name }) => name === asked) ?? agents.find(({ isDefault }) => isDefault) ?? agents[0];
  return (
    <Page title="Playground">
      {list.isPending ? (
        <div className="mx-auto flex max-w-2xl flex-col gap-3 p-4" aria-busy="true">
          <span className="skeleton h-16" />
          <span className="skeleton h-32" />
        </div>
      ) : list.isError && list.data === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : chosen === undefined ? (
        <Empty title="There is no agent to talk to">
          <p>
            An agent is a YAML file with a name and a model, in the folder of the agents (
            <code className="font-mono text-sm">BATON_AGENTS_DIR</code>).
          </p>
          <Link to="/agents" className="button">
            Agents
          </Link>
        </Empty>
      ) : (
        <div className="mx-auto flex max-w-2xl flex-col gap-4 p-4">
          {asked !== undefined && chosen.name !== asked && (
            <p role="alert" className="text-failed wrap-anywhere">
              There is no agent {clipped(asked, 100)}.
            </p>
          )}
          <AgentChoice
            agents={agents}
            chosen={chosen}
            choose={(agent) => void navigate({ search: { agent }, replace: true })}
          />
          <FirstMessage key={chosen.name} agent={chosen} />
        </div>
      )}
    </Page>
  );
}

function AgentChoice({
  agents,
  chosen,
  choose,
}: Readonly<{ agents: readonly Agent[]; chosen: Agent; choose: (name: string) => void }>): ReactNode {
  return (
    <fieldset className="flex flex-col gap-1">
      <legend className="pb-1 text-dim">Agent</legend>
      {agents.map((agent) => (
        <label
          key={agent.name}
          className="flex cursor-pointer items-start gap-2.5 rounded border border-line px-3 py-2 hover:bg-hover has-checked:border-accent has-checked:bg-chosen"
        >
          <input
            type="radio"
            name="agent"
            className="mt-1"
            checked={agent === chosen}
            onChange={() => choose(agent.name)}
          />
          <span className="min-w-0">
            <span className="flex flex-wrap items-center gap-x-2">
              <span className="font-medium wrap-anywhere" dir="auto">
                {clipped(agent.name, 200)}
              </span>
              <span className="truncate font-mono text-xs text-dim">{clipped(agent.model, 100)}</span>
            </span>
            <span className="block text-dim wrap-anywhere" dir="auto">
              {agent.description === null ? toolWords(agent) : clipped(agent.description, 300)}
            </span>
            {agent.problems.length > 0 && (
              <span className="block text-failed wrap-anywhere">{clipped(agent.problems.join(' '), 500)}</span>
            )}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

const toolWords = ({ tools }: Agent): string =>
  tools.length === 0 ? 'It has no tools.' : clipped(`Tools: ${tools.join(', ')}`, 200);

/** Creates the session with the first message, so that an abandoned page leaves none behind. */
function FirstMessage({ agent }: Readonly<{ agent: Agent }>): ReactNode {
  const navigate = useNavigate();
  const refused = useRefusal('write');
  const sendOnce = useSendOnce();
  const [text, setText] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const field = useId();
  const send = async (event?: FormEvent): Promise<void> => {
    event?.preventDefault();
    if (isBusy || text.trim() === '' || refused !== undefined) return;
    setBusy(true);
    setFailure(null);
    try {
      const id = await sendOnce(JSON.stringify([agent.name, text]), agent.name, async (name, idempotencyKey) => {
        const session = await client.sessions.create({ agent: name, title: titleOf(text) }, { idempotencyKey });
        await client.send(session.id, text, { idempotencyKey: `${idempotencyKey}-message` });
        return session.id;
      });
      await navigate({ to: '/sessions/$sessionId', params: { sessionId: id } });
    } catch (error) {
      setFailure(failureWords(error));
      setBusy(false);
    }
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    void send();
    event.preventDefault();
  };
  return (
    <form onSubmit={(event) => void send(event)} className="flex flex-col gap-2">
      <label htmlFor={field} className="text-dim">
        Message
      </label>
      <textarea
        id={field}
        className="field w-full"
        rows={4}
        dir="auto"
        placeholder={`Say something to ${clipped(agent.name, 60)}`}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        // biome-ignore lint/a11y/noAutofocus: the page is there to write.
        autoFocus
      />
      {failure !== null && (
        <p role="alert" className="text-failed wrap-anywhere">
          {failure}
        </p>
      )}
      <div className="flex items-center gap-3">
        <button
          type="submit"
          className="button main"
          disabled={isBusy || text.trim() === '' || refused !== undefined}
          title={refused}
        >
          Begin a session <kbd className="kbd">↵</kbd>
        </button>
        <span className="text-sm text-dim">{refused ?? 'Shift-Enter begins a new line.'}</span>
      </div>
    </form>
  );
}

const TITLE_CHARS = 80;

/** The first line, as far as a list shows it. */
const titleOf = (text: string): string => clipped(text.trim().split('\n')[0] ?? '', TITLE_CHARS);
