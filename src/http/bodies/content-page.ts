import { MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';

/** The first messages: at most `limit`, and fewer where they are large, but at least one. */
export function pageOf<T extends Readonly<{ bytes: number }>>(messages: readonly T[], limit: number): T[] {
  const page: T[] = [];
  let bytes = 0;
  for (const message of messages.slice(0, limit)) {
    bytes += message.bytes;
    if (page.length > 0 && bytes > MAX_PAGE_CONTENT_BYTES) break;
    page.push(message);
  }
  return page;
}
