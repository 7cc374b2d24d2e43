import { type Loss, wentWithCommits } from './losses.ts';
import { type AcceptedMessage, placesOf } from './messages.ts';
import { rawId, type Snapshot } from './snapshot.ts';

/** Messages that went with lost commits. `answeredLater`: those whose answer came after the loss. */
export function gone(
  { messages, waiting }: Pick<Snapshot, 'messages' | 'waiting'>,
  accepted: readonly AcceptedMessage[],
  losses: readonly Loss[],
): Readonly<{ n: number; answeredLater: number }> {
  const places = placesOf(messages);
  const all = accepted.filter(
    (message) =>
      wentWithCommits(message, losses) && !places.has(message.token) && !waiting.has(rawId(message.messageId)),
  );
  const isLater = ({ sentAtMs = 0, answeredAtMs = 0 }: AcceptedMessage): boolean =>
    losses.some(({ untilMs }) => sentAtMs < untilMs && answeredAtMs >= untilMs);
  return { n: all.length, answeredLater: all.filter(isLater).length };
}
