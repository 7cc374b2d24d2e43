import { setImmediate as nextRound } from 'node:timers/promises';
import type { Db } from '../store/db/database.ts';
import { readEventSeqs } from '../store/lists/live-snapshot.ts';

/** Sessions per query. */
const MAX_AT_ONCE = 500;

type Round = { sessionIds: Set<string>; answer: Promise<Awaited<ReturnType<typeof readEventSeqs>>> };

const open = new WeakMap<Db, Round>();

/**
 * The number of a session's last event. Streams that poll in the same round of the event loop share one query, so that a
 * thousand of them do not delay all other queries.
 * @returns null: the session is gone
 */
export async function pollEventSeq(db: Db, tenantId: string, sessionId: string): Promise<number | null> {
  let round = open.get(db);
  if (round === undefined || round.sessionIds.size >= MAX_AT_ONCE) {
    round = openRound(db);
    open.set(db, round);
  }
  round.sessionIds.add(sessionId);
  const session = (await round.answer).get(sessionId);
  return session?.tenantId === tenantId ? session.eventSeq : null;
}

function openRound(db: Db): Round {
  const sessionIds = new Set<string>();
  const ask = async (): ReturnType<typeof readEventSeqs> => {
    await nextRound();
    if (open.get(db)?.sessionIds === sessionIds) open.delete(db);
    return readEventSeqs(db, [...sessionIds]);
  };
  return { sessionIds, answer: ask() };
}

/** Distinct times within an interval at which streams poll. */
const MOMENTS = 20;

/** Time of a session's poll as a share of the interval: the same for its streams, spread over sessions. */
export const pollPhase = (sessionId: string): number => (Number.parseInt(sessionId.slice(-6), 16) % MOMENTS) / MOMENTS;
