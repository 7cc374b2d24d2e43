import { formatId } from '../ids.ts';
import type { Part } from '../transcript/message.ts';
import type { NewEvent } from './events.ts';

/** The events of the files and sources of an answer: unlike its text, they are told when it is kept, and only then. */
export function partEvents(messageId: string, parts: readonly Part[]): NewEvent[] {
  const ofMessage = { messageId: formatId('message', messageId) };
  return parts.flatMap((part): NewEvent[] => {
    switch (part.type) {
      case 'file': {
        const { type: _type, providerMetadata: _theirs, ...file } = part;
        return [{ type: 'llm:file', data: { ...ofMessage, ...file } }];
      }
      case 'source': {
        const { type: _type, providerMetadata: _theirs, ...source } = part;
        return [{ type: 'llm:source', data: { ...ofMessage, ...source } }];
      }
      default:
        return [];
    }
  });
}
