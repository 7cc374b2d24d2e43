import { client } from '../api.ts';
import { type SessionFilter, SINCE } from './session-filter.ts';
import { useLiveList } from './use-live-list.ts';

/** The sessions of a filter, live. */
export const useSessionList = (filter: SessionFilter, isAllowed: boolean) =>
  useLiveList({
    key: ['sessions', 'list', filter],
    read: async (request) => {
      const { sessions, nextCursor } = await client.sessions.list({ ...toRequest(filter), ...request });
      return { rows: sessions, nextCursor };
    },
    live: {
      changed: ({ sessions }) => sessions,
      readAgain: async (ids) => (await client.sessions.list({ ids, limit: ids.length })).sessions,
      keep: ({ hit }, now) => ({ ...now, hit }),
    },
    enabled: isAllowed,
  });

function toRequest({ since, ...filter }: SessionFilter) {
  // To the minute, so that the request of a list stays the same for a while.
  const fromMs = since === undefined ? null : Math.floor((Date.now() - SINCE[since]) / 60_000) * 60_000;
  return { ...filter, ...(fromMs !== null && { since: new Date(fromMs).toISOString() }) };
}
