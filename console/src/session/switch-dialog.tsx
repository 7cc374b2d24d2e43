import type { Agent, ListedSession } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { client, queries } from '../api.ts';
import { ActionDialog } from '../ui/dialog.tsx';
import { TextField } from '../ui/text-field.tsx';

type Props = Readonly<{ session: ListedSession; close: () => void }>;

/** Gives the session another agent, or another one of the models that its agent allows. */
export function SwitchDialog({ session, close }: Props): ReactNode {
  const { data } = useQuery({
    queryKey: ['agents'],
    queryFn: ({ signal }) => client.agents({ signal }),
    staleTime: 60_000,
  });
  const [agent, setAgent] = useState(session.agent);
  const [model, setModel] = useState(session.overrides.model ?? '');
  const field = useId();
  const known = data?.agents.find(({ name }) => name === agent);
  const change = async (): Promise<void> => {
    const chosen = model.trim();
    if (agent !== session.agent)
      await client.sessions.switchAgent(session.id, { agent, ...(chosen !== '' && { model: chosen }) });
    else await client.sessions.switchAgent(session.id, { model: chosen === '' ? (known?.model ?? '') : chosen });
    await queries.invalidateQueries({ queryKey: ['session', session.id] });
  };
  const chooseAgent = (name: string): void => {
    setAgent(name);
    setModel('');
  };
  return (
    <ActionDialog isOpen={true} close={close} title="Switch agent or model" act="Switch" run={change}>
      <p className="text-dim">The change counts from the next step on. The provider's cache breaks once.</p>
      <label className="flex flex-col gap-1" htmlFor={field}>
        Agent
        <select id={field} className="field" value={agent} onChange={(event) => chooseAgent(event.target.value)}>
          {[...new Set([session.agent, ...(data?.agents.map(({ name }) => name) ?? [])])].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <ModelField agent={known} model={model} change={setModel} />
    </ActionDialog>
  );
}

type FieldProps = Readonly<{ agent: Agent | undefined; model: string; change: (model: string) => void }>;

/** The models that the agent allows. A pattern allows more than a list can show, so its model is written. */
function ModelField({ agent, model, change }: FieldProps): ReactNode {
  const field = useId();
  const allowed = agent === undefined ? [] : [agent.model, ...agent.models];
  const patterns = allowed.filter((name) => name.endsWith('*'));
  if (agent === undefined || patterns.length > 0) {
    const hint = patterns.length === 0 ? '' : `, else one of ${allowed.join(', ')}`;
    return (
      <TextField
        label={`Model: empty for the agent's own${hint}`}
        value={model}
        change={change}
        choices={allowed.filter((name) => !patterns.includes(name))}
      />
    );
  }
  const others = [...new Set([...agent.models, ...(model === '' || model === agent.model ? [] : [model])])];
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={field}>Model</label>
      <select id={field} className="field" value={model} onChange={(event) => change(event.target.value)}>
        <option value="">{`${agent.model}, the agent's own`}</option>
        {others.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      {others.length === 0 && (
        <p className="text-sm text-dim">
          The agent allows no other model. Its file names others under <code className="font-mono">models</code>.
        </p>
      )}
    </div>
  );
}
