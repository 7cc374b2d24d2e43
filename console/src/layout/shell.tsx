import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useNavigate } from '@tanstack/react-router';
import { CircleHelp, LogOut, Moon, Search, Sun, SunMoon } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { isLoggedOut, logOut, queries } from '../api.ts';
import { ACTIONS, type Command, useCommands } from '../commands.ts';
import { failureWords } from '../format.ts';
import { useKeys } from '../keys.ts';
import { notify } from '../notices.ts';
import { chooseTheme, type Theme, useTheme } from '../theme.ts';
import { Failure } from '../ui/empty.tsx';
import { useActivity } from './activity.ts';
import { callerQuery } from './caller.ts';
import { KeyHelp } from './help.tsx';
import { Login } from './login.tsx';
import { LostConnection } from './lost-connection.tsx';
import { Notices } from './notices.tsx';
import { PageLinks, usePages, usePageTitle } from './page-links.tsx';
import { Palette } from './palette.tsx';

/** The frame of all pages: navigation, palette, keys, notices; the login where a key is needed. */
export function Shell(): ReactNode {
  const { data: caller, error, isPending, refetch } = useQuery(callerQuery);
  if (isLoggedOut(error)) {
    const wasIn = caller !== undefined;
    return <Login reason={wasIn ? 'Your key was revoked or has expired. Log in with another one.' : null} />;
  }
  if (isPending) return <div aria-busy="true" className="h-full" />;
  if (caller === undefined) return <Failure error={error} retry={() => void refetch()} />;
  return <Frame tenant={caller.tenant} hasKey={caller.keyId !== null} />;
}

const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };
const THEME_ICONS = { system: SunMoon, light: Sun, dark: Moon };

function Frame({ tenant, hasKey }: Readonly<{ tenant: string; hasKey: boolean }>): ReactNode {
  const navigate = useNavigate();
  const [open, setOpen] = useState<'palette' | 'actions' | 'keys' | null>(null);
  const theme = useTheme();
  const pages = usePages();
  useActivity();
  usePageTitle();
  const leave = async (): Promise<void> => {
    try {
      await logOut();
      await queries.resetQueries();
    } catch (error) {
      notify(failureWords(error), 'failed');
    }
  };
  const commands: Command[] = [
    ...pages.map(({ to, words, keys }) => ({ group: 'Page', words, keys, run: () => void navigate({ to }) })),
    { group: 'Console', words: `Theme: ${NEXT_THEME[theme]}`, run: () => chooseTheme(NEXT_THEME[theme]) },
    { group: 'Console', words: 'Keys of the keyboard', keys: '?', run: () => setOpen('keys') },
    ...(hasKey ? [{ group: 'Console', words: 'Log out', run: () => void leave() }] : []),
  ];
  useCommands(commands);
  useKeys('Everywhere', {
    'Mod+k': ['Go to a page, a session or an action', () => setOpen('palette')],
    '.': ['Actions for what is chosen', () => setOpen('actions')],
    '?': ['These keys', () => setOpen('keys')],
    ...Object.fromEntries(pages.map(({ to, words, keys }) => [keys, [words, () => void navigate({ to })] as const])),
  });
  const ThemeIcon = THEME_ICONS[theme];
  return (
    <div className="flex h-full flex-col">
      <header className="flex h-10 flex-none items-center gap-1 border-b border-line bg-panel px-3">
        <Link to="/sessions" className="mr-2 rounded px-1 font-semibold">
          Baton
        </Link>
        <PageLinks />
        <span className="flex-1" />
        <button type="button" className="bare h-6 px-2" onClick={() => setOpen('palette')} aria-label="Search: Ctrl K">
          <Search size={13} />
          <kbd className="kbd hidden sm:inline-block">Ctrl K</kbd>
        </button>
        <button
          type="button"
          className="icon-button"
          title={`Theme: ${theme}`}
          aria-label={`Theme: ${theme}. Change it`}
          onClick={() => chooseTheme(NEXT_THEME[theme])}
        >
          <ThemeIcon size={14} />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label="Keys"
          title="Keys (?)"
          onClick={() => setOpen('keys')}
        >
          <CircleHelp size={14} />
        </button>
        <span className="ml-1 hidden max-w-40 truncate text-dim sm:inline" title={`Tenant ${tenant}`}>
          {tenant}
        </span>
        {hasKey && (
          <button
            type="button"
            className="icon-button"
            aria-label="Log out"
            title="Log out"
            onClick={() => void leave()}
          >
            <LogOut size={14} />
          </button>
        )}
      </header>
      <LostConnection />
      <main className="min-h-0 flex-1">
        <Outlet />
      </main>
      <Notices />
      <Palette
        isOpen={open === 'palette' || open === 'actions'}
        only={open === 'actions' ? ACTIONS : undefined}
        close={() => setOpen(null)}
      />
      <KeyHelp isOpen={open === 'keys'} close={() => setOpen(null)} />
    </div>
  );
}
