import type { Caller } from '@baton-run/server/client';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { client } from '../api.ts';

export const callerQuery = queryOptions({
  queryKey: ['caller'],
  queryFn: ({ signal }) => client.whoami({ signal }),
  staleTime: 60_000,
});

type Scope = Caller['scopes'][number];

/** The caller, once it is known. */
export const useCaller = (): Caller | undefined => useQuery(callerQuery).data;

export function useMay(scope: Scope): boolean {
  return useCaller()?.scopes.includes(scope) === true;
}

/** Why an action is not possible with this key; undefined: it is. */
export function useRefusal(scope: Scope): string | undefined {
  return useMay(scope) ? undefined : `Your key lacks the scope ${scope}`;
}
