import type { WaitingMessage } from '../client/client.ts';
import { oneLine } from './terminal/words.ts';

/** The messages that wait, one a line. */
export function showWaiting(messages: readonly WaitingMessage[]): string[] {
  return messages.map(({ id, position, delivery, content }) => {
    const text = content.map((part) => (isText(part) ? part.text : '[file]')).join(' ');
    return `queue ${position}    ${id}  ${delivery}  ${oneLine(text, 100)}`;
  });
}

const isText = (part: unknown): part is { text: string } =>
  typeof part === 'object' && part !== null && 'text' in part && typeof part.text === 'string';
