import type { EventData, SessionSnapshot } from './contract.ts';
import type { Chunk, LiveEvent } from './session-events.ts';

/** The part of a message that the reader has, in UTF-16 units. */
type Place = Readonly<{ messageId: string; epoch: number; text: number; reasoning: number }>;

/** The streamed text that a reader has, over all of its connections. */
export type DeliveredText = Readonly<{
  /** The new part of a chunk. A chunk after a gap has none, until the missing text has come. */
  accept: (chunk: Chunk) => LiveEvent[];
  /** The new part of a snapshot's text. */
  catchUp: (inFlight: SessionSnapshot['inFlight']) => LiveEvent[];
  /** The new part of a complete response. */
  complete: (response: EventData['llm:response']) => LiveEvent[];
}>;

/**
 * A server sends each character once per connection, and none that came while there was no connection. The reader gets
 * each character once, without gaps.
 */
export function createDeliveredText(): DeliveredText {
  let place: Place | null = null;
  const placeOf = (messageId: string): Place | null => (place?.messageId === messageId ? place : null);
  const accept = (chunk: Chunk): LiveEvent[] => {
    const { messageId, epoch, offset, chunkType, content } = chunk;
    const knownPlace = placeOf(messageId);
    if (knownPlace !== null && epoch < knownPlace.epoch) return [];
    const before = knownPlace?.epoch === epoch ? knownPlace : { messageId, epoch, text: 0, reasoning: 0 };
    const end = before.text + before.reasoning;
    const addition = offset > end ? '' : content.slice(end - offset);
    if (addition === '') return [];
    place = { ...before, [chunkType]: before[chunkType] + addition.length };
    return [{ type: 'llm:chunk', data: { ...chunk, offset: end, content: addition } }];
  };
  return {
    accept,
    catchUp(inFlight) {
      if (inFlight === null) return [];
      const { messageId, epoch, chunks } = inFlight;
      return chunks.flatMap((chunk) => accept({ ...chunk, messageId, epoch }));
    },
    complete({ messageId, content, reasoning = '' }) {
      const { epoch, text, reasoning: thought } = placeOf(messageId) ?? { epoch: 0, text: 0, reasoning: 0 };
      const rest = { messageId, epoch };
      return [
        ...accept({ ...rest, offset: thought + text, chunkType: 'reasoning', content: reasoning.slice(thought) }),
        ...accept({
          ...rest,
          offset: Math.max(thought, reasoning.length) + text,
          chunkType: 'text',
          content: content.slice(text),
        }),
      ];
    },
  };
}
