import type { Caller } from '@baton-run/server/client';

type Scope = Caller['scopes'][number];

export type Place = Readonly<{
  to:
    | '/sessions'
    | '/playground'
    | '/inbox'
    | '/runs'
    | '/errors'
    | '/usage'
    | '/workers'
    | '/agents'
    | '/schedules'
    | '/webhooks'
    | '/keys'
    | '/audit';
  words: string;
  keys: string;
  /** Any of these shows it. */
  scopes: readonly Scope[];
  group: 'Sessions' | 'Runs' | 'Automation' | 'Admin';
}>;

/** The pages, with the keys that lead there. */
export const PAGES: readonly Place[] = [
  { to: '/sessions', words: 'Sessions', keys: 'g s', scopes: ['read'], group: 'Sessions' },
  { to: '/playground', words: 'Playground', keys: 'g p', scopes: ['write'], group: 'Sessions' },
  { to: '/inbox', words: 'Inbox', keys: 'g i', scopes: ['read'], group: 'Sessions' },
  { to: '/runs', words: 'Runs', keys: 'g r', scopes: ['read', 'operator'], group: 'Runs' },
  { to: '/errors', words: 'Errors', keys: 'g e', scopes: ['read', 'operator'], group: 'Runs' },
  { to: '/usage', words: 'Usage', keys: 'g u', scopes: ['read', 'operator'], group: 'Runs' },
  { to: '/schedules', words: 'Schedules', keys: 'g c', scopes: ['read'], group: 'Automation' },
  { to: '/webhooks', words: 'Webhooks', keys: 'g h', scopes: ['read'], group: 'Automation' },
  { to: '/agents', words: 'Agents', keys: 'g a', scopes: ['read'], group: 'Admin' },
  { to: '/workers', words: 'Workers', keys: 'g w', scopes: ['operator'], group: 'Admin' },
  { to: '/keys', words: 'API keys', keys: 'g k', scopes: ['admin'], group: 'Admin' },
  { to: '/audit', words: 'Audit', keys: 'g l', scopes: ['admin'], group: 'Admin' },
];
