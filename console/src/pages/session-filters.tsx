import { useQuery } from '@tanstack/react-query';
import { Search, X } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { client } from '../api.ts';
import { useKeys } from '../keys.ts';
import { Choice } from '../ui/choice.tsx';
import { type SessionFilter, SINCE } from './session-filter.ts';
import { windowWords } from './window.ts';

/** A pause in typing after which the list is searched. */
const PAUSE_MS = 250;

/** Search and filters above the list. They stand in the address. */
export function SessionFilters({
  filter,
  change,
}: Readonly<{ filter: SessionFilter; change: (next: SessionFilter) => void }>): ReactNode {
  const { data } = useQuery({
    queryKey: ['agents'],
    queryFn: ({ signal }) => client.agents({ signal }),
    staleTime: 60_000,
  });
  const set = (part: Partial<Record<keyof SessionFilter, unknown>>): void => {
    const entries = Object.entries({ ...filter, ...part }).filter(([, value]) => value !== undefined && value !== '');
    change(Object.fromEntries(entries) as SessionFilter);
  };
  const toggle = (name: 'failed' | 'waiting'): ReactNode => (
    <button
      type="button"
      aria-pressed={filter[name] === true}
      className="button small aria-pressed:border-accent aria-pressed:bg-chosen"
      onClick={() => set({ [name]: filter[name] === true ? undefined : true })}
    >
      {name}
    </button>
  );
  return (
    <div className="flex flex-none flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
      <SearchField value={filter.q ?? ''} change={(q) => set({ q })} />
      <Choice
        label="Agent"
        value={filter.agent}
        values={data?.agents.map(({ name }) => name) ?? []}
        change={(agent) => set({ agent })}
      />
      <Choice
        label="Status"
        value={filter.status}
        values={['idle', 'busy', 'requires_action']}
        change={(status) => set({ status })}
      />
      <Choice
        label="Created"
        value={filter.since}
        values={Object.keys(SINCE)}
        change={(since) => set({ since })}
        wordsOf={(since) => `last ${windowWords(since)}`}
      />
      <Choice
        label="Cost"
        value={filter.minCost === undefined ? undefined : String(filter.minCost)}
        values={['0.01', '0.1', '1', '10']}
        change={(value) => set({ minCost: value === undefined ? undefined : Number(value) })}
        wordsOf={(least) => `from $${least}`}
      />
      {toggle('waiting')}
      {toggle('failed')}
      {Object.keys(filter).length > 0 && (
        <button type="button" className="bare h-6 px-2" onClick={() => change({})}>
          <X size={13} /> clear
        </button>
      )}
    </div>
  );
}

function SearchField({
  value,
  change,
}: Readonly<{ value: string; change: (q: string | undefined) => void }>): ReactNode {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  useKeys('List', { '/': ['Search', () => field.current?.focus()] });
  return (
    <span className="relative max-sm:w-full">
      <Search size={13} className="pointer-events-none absolute top-1.5 left-2 text-dim" aria-hidden="true" />
      <input
        ref={field}
        type="search"
        aria-label="Search sessions"
        className="field h-6! w-80 pl-7 text-sm max-sm:w-full"
        placeholder="Title, messages, key, metadata or id   /"
        maxLength={200}
        value={text}
        onChange={(event) => {
          const q = event.target.value;
          setText(q);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => change(q.trim() === '' ? undefined : q.trim()), PAUSE_MS);
        }}
        onKeyDown={(event) => event.key === 'Escape' && field.current?.blur()}
      />
    </span>
  );
}
