import type { BatonClient, QueuePage, WaitingMessage } from '../client/client.ts';
import { oneLine } from './terminal/words.ts';

export async function readQueue(client: BatonClient, sessionId: string): Promise<readonly WaitingMessage[]> {
  const messages: WaitingMessage[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: QueuePage = await client.queue.list(sessionId, { limit: 200, ...(cursor !== undefined && { cursor }) });
    messages.push(...page.messages);
    cursor = page.nextCursor;
  }
  return messages;
}

export function showWaiting(messages: readonly WaitingMessage[]): string[] {
  return messages.map(({ id, position, delivery, content }) => {
    const text = content.map((part) => (isText(part) ? part.text : '[file]')).join(' ');
    return `queue ${position}    ${id}  ${delivery}  ${oneLine(text, 100)}`;
  });
}

const isText = (part: unknown): part is { text: string } =>
  typeof part === 'object' && part !== null && 'text' in part && typeof part.text === 'string';
