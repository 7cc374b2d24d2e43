import type { Db } from '../store/database.ts';
import { type EventPage, readEventPage } from '../store/events.ts';
import { toPublicEvent } from './stream-item.ts';

type Page = Readonly<{ tenantId: string; sessionId: string; afterSeq: number; limit: number }>;

const underWay = new WeakMap<Db, Map<string, Promise<EventPage>>>();

/**
 * Committed events after `afterSeq`, oldest first, with their ids in public form. Readers of one session that were told
 * of the same event and are at the same place share one query: it began after the announcement, so it finds that event
 * for each of them. Whoever looks for another reason may know more than a query under way, and gets one of its own.
 */
export function readPublicEvents(db: Db, page: Page, announcedSeq: number | null): Promise<EventPage> {
  if (announcedSeq === null) return query(db, page);
  const shared = underWay.get(db) ?? new Map<string, Promise<EventPage>>();
  underWay.set(db, shared);
  const key = [page.tenantId, page.sessionId, page.afterSeq, page.limit, announcedSeq].join();
  const known = shared.get(key);
  if (known !== undefined) return known;
  const asked = query(db, page).finally(() => shared.delete(key));
  shared.set(key, asked);
  return asked;
}

async function query(db: Db, { tenantId, sessionId, afterSeq, limit }: Page): Promise<EventPage> {
  const page = await readEventPage(db, tenantId, sessionId, afterSeq, limit);
  return { ...page, events: page.events.map(toPublicEvent) };
}
