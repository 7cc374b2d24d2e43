import { type ModelRequest, textOf, tokensIn } from './messages.ts';
import type { Snapshot, StoredMessage } from './snapshot.ts';
import { answersIn } from './transcript.ts';

/**
 * Answers whose request lacked something that a user had said before them, by the provider's log: what stands before an
 * answer was said to the model that gave it. Of a view that was compacted this holds for what came after the summary;
 * what the summary stands for is not sent any more.
 */
export function checkShown({ messages }: Snapshot, requests: readonly ModelRequest[]): string[] {
  const shown = new Map(requests.flatMap(({ answer, text }) => (answer === undefined ? [] : [[answer, text]])));
  return [...Map.groupBy(messages, ({ sessionId }) => sessionId).values()].flatMap((transcript) =>
    transcript.flatMap((message, index) => {
      const [answer] = message.superseded || message.role !== 'assistant' ? [] : answersIn(message);
      const request = answer === undefined ? undefined : shown.get(answer);
      if (request === undefined) return [];
      const heard = new Set(tokensIn(request));
      const missing = saidSinceSummary(transcript.slice(0, index)).filter((token) => !heard.has(token));
      return missing.map((token) => `answer ${answer} was asked for without ${token}`);
    }),
  );
}

function saidSinceSummary(before: readonly StoredMessage[]): string[] {
  const since = before.slice(before.findLastIndex(isSummary) + 1);
  return since.flatMap((message) => (message.role === 'user' ? tokensIn(textOf(message)) : []));
}

const isSummary = ({ parts }: StoredMessage): boolean => parts.some(({ content }) => content.type === 'compaction');
