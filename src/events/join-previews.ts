import { type ContentEvent, type LiveEvent, withContent } from '../domain/run/events.ts';

/** Limit of a joined preview, so that dropping one loses little. */
const MAX_JOINED_CHARS = 16_384;

/** Joins two previews if the second continues the first. Else null. */
export function joinPreviews(first: LiveEvent, second: LiveEvent): LiveEvent | null {
  if (first.type === 'llm:thinking' || second.type === 'llm:thinking') return null;
  const [earlier, later] = [first.data, second.data];
  const adjacent =
    isOfSameText(first, second) &&
    earlier.messageId === later.messageId &&
    earlier.epoch === later.epoch &&
    earlier.offset + earlier.content.length === later.offset &&
    earlier.content.length + later.content.length <= MAX_JOINED_CHARS;
  return adjacent ? withContent(first, earlier.offset, earlier.content + later.content) : null;
}

function isOfSameText(first: ContentEvent, second: ContentEvent): boolean {
  if (first.type === 'llm:chunk') return second.type === first.type && second.data.chunkType === first.data.chunkType;
  return second.type === first.type && second.data.id === first.data.id;
}
