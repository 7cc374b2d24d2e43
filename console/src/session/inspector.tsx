import { Tabs } from '@base-ui/react/tabs';
import type { StepRow } from '@baton-run/server/client';
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { count } from '../format.ts';
import { Empty, SkeletonRows } from '../ui/empty.tsx';
import { State } from '../ui/state.tsx';
import { Overview } from './overview.tsx';
import { ProviderError } from './provider-error.tsx';
import { RawJson } from './raw-json.tsx';
import { RequestTab } from './request-tab.tsx';
import { ResponseTab, ToolsTab } from './response-tab.tsx';
import type { Tab } from './search.ts';
import { TraceTab } from './trace-tab.tsx';
import { UsageTab } from './usage-tab.tsx';

const WORDS: Readonly<Record<Tab, string>> = {
  request: 'Request',
  response: 'Response',
  tools: 'Tools',
  usage: 'Usage',
  error: 'Error',
  trace: 'Trace',
};

type Props = Readonly<{
  runId: string | undefined;
  row: StepRow | undefined;
  /** A step is named in the address. */
  isAsked: boolean;
  /** Steps are being read. */
  isReading: boolean;
  tab: Tab;
  choose: (tab: Tab) => void;
  close: () => void;
}>;

/** All of a step; without one, all of the session. */
export function Inspector({ runId, row, isAsked, isReading, tab, choose, close }: Props): ReactNode {
  if (!isAsked) return <Overview />;
  if (row === undefined && isReading) return <SkeletonRows rows={8} height={28} />;
  if (row === undefined || runId === undefined) {
    return (
      <Empty title="The step is not here">
        <p>The run has no step of this number, or it has not begun yet.</p>
        <button type="button" className="button small" onClick={close}>
          Show the session instead
        </button>
      </Empty>
    );
  }
  return (
    <Tabs.Root value={tab} onValueChange={(value) => choose(value as Tab)} className="flex h-full min-w-0 flex-col">
      <header className="flex flex-none items-center gap-2 px-3 pt-2">
        <h2>
          Step {count(row.step)}
          {row.attempt > 1 && `, attempt ${row.attempt}`}
        </h2>
        <State state={row.state} />
        <span className="min-w-0 flex-1 truncate text-sm text-dim" title={row.model ?? undefined}>
          {row.model}
        </span>
        <RawJson row={row} runId={runId} />
        <button
          type="button"
          className="icon-button"
          aria-label="Close the step"
          title="Close the step (Escape)"
          onClick={close}
        >
          <X size={14} />
        </button>
      </header>
      <Tabs.List className="flex flex-none overflow-x-auto border-b border-line px-1" aria-label="Parts of the step">
        {(Object.keys(WORDS) as Tab[])
          .filter((name) => name !== 'error' || row.error !== null || tab === 'error')
          .map((name) => (
            <Tabs.Tab key={name} value={name} className="tab">
              {WORDS[name]}
              {name === 'tools' && row.tools.length > 0 && <span className="ml-1 text-dim">{row.tools.length}</span>}
            </Tabs.Tab>
          ))}
      </Tabs.List>
      <Tabs.Panel value={tab} className="min-h-0 flex-1 overflow-auto p-3" data-scroller="">
        <TabBody key={row.messageId} tab={tab} row={row} runId={runId} />
      </Tabs.Panel>
    </Tabs.Root>
  );
}

type BodyProps = Readonly<{ tab: Tab; row: StepRow; runId: string }>;

function TabBody({ tab, row, runId }: BodyProps): ReactNode {
  switch (tab) {
    case 'request':
      return <RequestTab runId={runId} row={row} />;
    case 'response':
      return <ResponseTab row={row} />;
    case 'tools':
      return <ToolsTab row={row} />;
    case 'usage':
      return <UsageTab row={row} />;
    case 'error':
      return row.error === null ? (
        <p className="text-dim">The step has no error.</p>
      ) : (
        <ProviderError error={row.error} />
      );
    case 'trace':
      return <TraceTab row={row} runId={runId} />;
  }
}
