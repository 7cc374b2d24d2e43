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
  /** The page of the navigation that it belongs to, if it is not there itself. */
  under?: '/agents';
}>;

/** The pages, with the keys that lead there. */
export const PAGES: readonly Place[] = [
  { to: '/sessions', words: 'Sessions', keys: 'g s', scopes: ['read'] },
  { to: '/playground', words: 'Playground', keys: 'g p', scopes: ['write'] },
  { to: '/inbox', words: 'Inbox', keys: 'g i', scopes: ['read'] },
  { to: '/runs', words: 'Runs', keys: 'g r', scopes: ['read', 'operator'] },
  { to: '/errors', words: 'Errors', keys: 'g e', scopes: ['read', 'operator'] },
  { to: '/usage', words: 'Usage', keys: 'g u', scopes: ['read', 'operator'] },
  { to: '/workers', words: 'Workers', keys: 'g w', scopes: ['operator'] },
  { to: '/agents', words: 'Agents', keys: 'g a', scopes: ['read'] },
  { to: '/schedules', words: 'Schedules', keys: 'g c', scopes: ['read'], under: '/agents' },
  { to: '/webhooks', words: 'Webhooks', keys: 'g h', scopes: ['read'], under: '/agents' },
  { to: '/keys', words: 'Keys of the API', keys: 'g k', scopes: ['admin'], under: '/agents' },
  { to: '/audit', words: 'Audit log', keys: 'g l', scopes: ['admin'], under: '/agents' },
];
