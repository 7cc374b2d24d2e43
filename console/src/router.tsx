import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { NotFound, PageFailure } from './layout/page-failure.tsx';
import { Shell } from './layout/shell.tsx';
import { readErrorFilter } from './pages/error-filter.ts';
import { readOpenFilter } from './pages/open-filter.ts';
import { readRunFilter } from './pages/run-filter.ts';
import { readSessionFilter } from './pages/session-filter.ts';
import { SessionsPage } from './pages/sessions.tsx';
import { readUsageFilter } from './pages/usage-filter.ts';
import { CONSOLE_PLACE } from './place.ts';
import { readSessionSearch } from './session/search.ts';

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: PageFailure });

const index = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/sessions', replace: true });
  },
});

const sessions = createRoute({
  getParentRoute: () => root,
  path: '/sessions',
  validateSearch: readSessionFilter,
  component: SessionsPage,
});

const session = createRoute({
  getParentRoute: () => root,
  path: '/sessions/$sessionId',
  validateSearch: readSessionSearch,
  component: lazyRouteComponent(() => import('./session/page.tsx'), 'SessionPage'),
});

/** A text of the address; a number is one, too. */
const readText = (name: 'agent' | 'call') => (search: Record<string, unknown>) => {
  const value = search[name];
  return typeof value === 'string' || typeof value === 'number' ? { [name]: String(value) } : {};
};

const playground = createRoute({
  getParentRoute: () => root,
  path: '/playground',
  validateSearch: (search: Record<string, unknown>): Readonly<{ agent?: string }> => readText('agent')(search),
  component: lazyRouteComponent(() => import('./pages/playground.tsx'), 'PlaygroundPage'),
});

const inbox = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  validateSearch: (search: Record<string, unknown>): Readonly<{ call?: string }> => readText('call')(search),
  component: lazyRouteComponent(() => import('./pages/inbox.tsx'), 'InboxPage'),
});

const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: readRunFilter,
  component: lazyRouteComponent(() => import('./pages/runs.tsx'), 'RunsPage'),
});

const errors = createRoute({
  getParentRoute: () => root,
  path: '/errors',
  validateSearch: readErrorFilter,
  component: lazyRouteComponent(() => import('./pages/errors.tsx'), 'ErrorsPage'),
});

const usage = createRoute({
  getParentRoute: () => root,
  path: '/usage',
  validateSearch: readUsageFilter,
  component: lazyRouteComponent(() => import('./pages/usage.tsx'), 'UsagePage'),
});

const workers = createRoute({
  getParentRoute: () => root,
  path: '/workers',
  component: lazyRouteComponent(() => import('./pages/workers.tsx'), 'WorkersPage'),
});

const agents = createRoute({
  getParentRoute: () => root,
  path: '/agents',
  component: lazyRouteComponent(() => import('./pages/agents.tsx'), 'AgentsPage'),
});

const schedules = createRoute({
  getParentRoute: () => root,
  path: '/schedules',
  validateSearch: readOpenFilter,
  component: lazyRouteComponent(() => import('./pages/schedules.tsx'), 'SchedulesPage'),
});

const webhooks = createRoute({
  getParentRoute: () => root,
  path: '/webhooks',
  validateSearch: readOpenFilter,
  component: lazyRouteComponent(() => import('./pages/webhooks.tsx'), 'WebhooksPage'),
});

const keys = createRoute({
  getParentRoute: () => root,
  path: '/keys',
  component: lazyRouteComponent(() => import('./pages/keys.tsx'), 'KeysPage'),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  component: lazyRouteComponent(() => import('./pages/audit.tsx'), 'AuditPage'),
});

/** The pages that are not loaded with the first one. */
const LATER = [session, playground, inbox, runs, errors, usage, workers, agents, schedules, webhooks, keys, audit];

/** Loads all pages, so that the next one is there at once, and also while the service is away. */
export async function loadPages(): Promise<void> {
  // A page that cannot be loaded now is loaded when it is opened.
  await Promise.allSettled(LATER.map(({ options }) => options.component?.preload?.()));
}

export const router = createRouter({
  routeTree: root.addChildren([
    index,
    sessions,
    session,
    playground,
    inbox,
    runs,
    errors,
    usage,
    workers,
    agents,
    schedules,
    webhooks,
    keys,
    audit,
  ]),
  basepath: CONSOLE_PLACE,
  defaultErrorComponent: PageFailure,
  defaultPreload: false,
  trailingSlash: 'never',
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
