import { shareReads } from '../platform/share-reads.ts';
import type { Db } from '../store/db/database.ts';
import { type EventPage, readEventPage } from '../store/transcript/events.ts';
import { toPublicEvent } from './stream-item.ts';

type Page = Readonly<{ tenantId: string; sessionId: string; afterSeq: number; limit: number }>;

const underWay = new WeakMap<Db, Map<string, Promise<EventPage>>>();

/**
 * Committed events after `afterSeq`, oldest first, with public ids. Readers that heard of the same event share a query,
 * which began after the announcement; a reader with another reason shares only one that has not begun.
 */
export function readPublicEvents(db: Db, page: Page, announcedSeq: number | null): Promise<EventPage> {
  if (announcedSeq === null) return readPage(db, page);
  const shared = underWay.get(db) ?? new Map<string, Promise<EventPage>>();
  underWay.set(db, shared);
  const key = `${keyOf(page)},${announcedSeq}`;
  const known = shared.get(key);
  if (known !== undefined) return known;
  const asked = query(db, page).finally(() => shared.delete(key));
  shared.set(key, asked);
  return asked;
}

const keyOf = ({ tenantId, sessionId, afterSeq, limit }: Page): string => [tenantId, sessionId, afterSeq, limit].join();

const readPage = shareReads(query, keyOf);

async function query(db: Db, { tenantId, sessionId, afterSeq, limit }: Page): Promise<EventPage> {
  const page = await readEventPage(db, tenantId, sessionId, afterSeq, limit);
  return { ...page, events: page.events.map(toPublicEvent) };
}
