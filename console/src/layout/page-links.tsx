import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useRouterState } from '@tanstack/react-router';
import { Menu as MenuIcon } from 'lucide-react';
import { type ReactNode, useEffect } from 'react';
import { client } from '../api.ts';
import { CONSOLE_PLACE } from '../place.ts';
import { ActionMenu } from '../ui/menu.tsx';
import { onActivity } from './activity.ts';
import { useCaller, useMay } from './caller.ts';
import { PAGES, type Place } from './places.ts';

/** The pages that the key of the page may see. */
export function usePages(): readonly Place[] {
  const mine = useCaller()?.scopes ?? [];
  return PAGES.filter(({ scopes }) => scopes.some((scope) => mine.includes(scope)));
}

/** The name of the page that is shown, for the browser's tabs. A session names itself. */
export function usePageTitle(): void {
  const path = useShownPath();
  useEffect(() => {
    const shown = PAGES.find(({ to }) => to === path);
    if (shown !== undefined) document.title = `${shown.words} · Baton`;
  }, [path]);
}

const useShownPath = (): string =>
  useRouterState({ select: ({ location }) => location.pathname }).replace(CONSOLE_PLACE, '');

/** All pages in a row, or in a menu where the screen is narrow. */
export function PageLinks(): ReactNode {
  const navigate = useNavigate();
  const pages = usePages();
  const waiting = useWaitingCalls();
  const isNow = useIsNow();
  const current = pages.find(isNow)?.words ?? '';
  const numberOf = ({ to }: Place): string => (to === '/inbox' ? waiting : '');
  return (
    <>
      <nav aria-label="Pages" className="hidden items-center min-[1140px]:flex">
        {pages.map((place, index) => (
          <Link
            key={place.to}
            data-group={place.group !== pages[index - 1]?.group && index > 0 ? '' : undefined}
            to={place.to}
            title={`${place.group}: ${place.words} (${place.keys})`}
            aria-current={isNow(place) ? 'page' : undefined}
            className={`page-link rounded px-2 py-0.5 hover:text-ink ${isNow(place) ? 'bg-chosen text-ink' : 'text-dim'}`}
          >
            {place.words}
            {numberOf(place) !== '' && <span className="ml-1 text-waiting">{numberOf(place)}</span>}
          </Link>
        ))}
      </nav>
      <nav aria-label="Pages" className="flex items-center gap-1 min-[1140px]:hidden">
        <ActionMenu
          label="Pages"
          actions={pages.map((place) => ({
            words: `${place.words} ${numberOf(place)}`.trim(),
            keys: place.keys,
            run: () => void navigate({ to: place.to }),
          }))}
        >
          <MenuIcon size={15} />
        </ActionMenu>
        <span className="text-dim">{current}</span>
      </nav>
    </>
  );
}

/** Whether a page, or one below it, is shown. */
function useIsNow(): (place: Place) => boolean {
  const path = useShownPath();
  return ({ to }) => path === to || path.startsWith(`${to}/`);
}

const MOST_COUNTED = 100;
const PAUSE_MS = 500;

/** The number of calls that wait for a person, as text; empty: none. It also keeps the inbox fresh. */
function useWaitingCalls(): string {
  const mayRead = useMay('read');
  const cache = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onActivity(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void cache.invalidateQueries({ queryKey: ['inbox'] });
      }, PAUSE_MS);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [cache]);
  const { data } = useQuery({
    queryKey: ['inbox', 'count'],
    queryFn: ({ signal }) => client.inbox({ limit: MOST_COUNTED, signal }),
    enabled: mayRead,
    refetchInterval: 30_000,
  });
  if (data === undefined || data.calls.length === 0) return '';
  return data.calls.length < MOST_COUNTED ? String(data.calls.length) : `${MOST_COUNTED}+`;
}
