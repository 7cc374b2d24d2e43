import { useQuery } from '@tanstack/react-query';
import { client } from '../api.ts';

const NONE: readonly string[] = [];

/** The names of the agents, once they are known. */
export function useAgentNames(): readonly string[] {
  const { data } = useQuery({
    queryKey: ['agents'],
    queryFn: ({ signal }) => client.agents({ signal }),
    staleTime: 60_000,
  });
  return data?.agents.map(({ name }) => name) ?? NONE;
}
