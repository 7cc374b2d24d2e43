import { Dialog as Base } from '@base-ui/react/dialog';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useMemo, useRef, useState } from 'react';
import { client } from '../api.ts';
import { type Command, currentCommands } from '../commands.ts';
import { clipped } from '../format.ts';
import { atHit } from '../session/search.ts';
import { useMay } from './caller.ts';

const MAX_SHOWN = 40;
/** The service searches words from this length on. */
const MIN_SEARCH_CHARS = 3;

type PaletteProps = Readonly<{
  isOpen: boolean;
  close: () => void;
  /** A group of commands, if not all. */
  only?: string | undefined;
}>;

/** One field that reaches each page, session and action. */
export function Palette({ isOpen, close, only }: PaletteProps): ReactNode {
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && close()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-20 bg-black/30" />
        <Base.Popup
          className="floating fixed top-[12vh] left-1/2 z-30 flex max-h-[70vh] w-[calc(100vw-24px)] max-w-xl -translate-x-1/2 flex-col outline-none"
          aria-label="Go to a page, a session or an action"
        >
          <PaletteList close={close} only={only} />
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

function PaletteList({ close, only }: Omit<PaletteProps, 'isOpen'>): ReactNode {
  const [query, setQuery] = useState('');
  const [chosen, setChosen] = useState(0);
  const listId = useId();
  const list = useRef<HTMLDivElement>(null);
  const [commands] = useState(() => currentCommands().filter(({ group }) => only === undefined || group === only));
  const sessions = useFoundSessions(query, only === undefined);
  const shown = useMemo(
    () => [...fitting(commands, query), ...sessions].slice(0, MAX_SHOWN),
    [commands, query, sessions],
  );
  const at = Math.min(chosen, shown.length - 1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen line scrolls into sight when it changes.
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const run = (command: Command | undefined): void => {
    if (command === undefined || command.refused !== undefined) return;
    close();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter') run(shown[at]);
    else if (step !== undefined) setChosen((at + step + shown.length) % Math.max(1, shown.length));
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        role="combobox"
        aria-label="Go to a page, a session or an action"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={at >= 0 ? `${listId}-${at}` : undefined}
        className="border-b border-line bg-transparent px-4 py-3 outline-none"
        placeholder="Page, session or action…"
        value={query}
        onKeyDown={onKeyDown}
        onChange={(event) => {
          setQuery(event.target.value);
          setChosen(0);
        }}
      />
      <div ref={list} id={listId} role="listbox" aria-label="Results" className="min-h-0 overflow-auto p-1">
        {shown.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys.
          <div
            key={`${command.group} ${command.words}`}
            id={`${listId}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            aria-disabled={command.refused !== undefined}
            className="flex items-center gap-3 rounded px-3 py-1 aria-disabled:text-dim aria-selected:bg-chosen"
            onMouseMove={() => setChosen(index)}
            onClick={() => run(command)}
          >
            <span className="w-20 flex-none text-sm text-dim">{command.group}</span>
            <span className="min-w-0 flex-1 truncate">
              {command.words}
              {command.refused !== undefined && <span className="ml-2 text-sm">{command.refused}</span>}
            </span>
            {command.keys !== undefined && <span className="kbd">{command.keys}</span>}
          </div>
        ))}
        {shown.length === 0 && (
          <p className="px-3 py-2 text-dim">
            {only === undefined
              ? 'No page, session or action has this name.'
              : 'There is no action for what is chosen.'}
          </p>
        )}
      </div>
    </>
  );
}

/** The commands with all words of the query, those that it begins first and refused ones last. */
function fitting(commands: readonly Command[], query: string): readonly Command[] {
  const words = query.toLowerCase().split(/\s+/);
  const fits = ({ group, words: name }: Command): boolean =>
    words.every((word) => `${group} ${name}`.toLowerCase().includes(word));
  const rank = ({ words: name, refused }: Command): number =>
    refused !== undefined ? 2 : name.toLowerCase().startsWith(query.toLowerCase()) ? 0 : 1;
  return commands.filter(fits).toSorted((a, b) => rank(a) - rank(b));
}

function useFoundSessions(query: string, isWanted: boolean): readonly Command[] {
  const navigate = useNavigate();
  const mayRead = useMay('read');
  const q = query.trim();
  const search = q.length >= MIN_SEARCH_CHARS ? { q } : {};
  const { data } = useQuery({
    queryKey: ['sessions', 'palette', search],
    queryFn: ({ signal }) => client.sessions.list({ ...search, limit: 8, signal }),
    placeholderData: (before) => before,
    enabled: mayRead && isWanted,
  });
  return useMemo(
    () =>
      (isWanted ? (data?.sessions ?? []) : []).map((session) => ({
        group: 'Session',
        words: [clipped(session.name, 120), session.id, ...(session.hit === null ? [] : [session.hit.text])].join(
          ' · ',
        ),
        run: () =>
          void navigate({
            to: '/sessions/$sessionId',
            params: { sessionId: session.id },
            search: atHit(session.hit),
          }),
      })),
    [data, navigate, isWanted],
  );
}
