import type { ViewMessage } from '../../transcript/message.ts';
import { messageRef } from '../../transcript/refs.ts';
import { keepHeadAndTail } from '../../truncate.ts';
import { userText } from './summary-document.ts';

const HEADING = '## Removed without a summary';
const QUOTE_CHARS = 300;

/** Least tokens of the text that replaces a removed middle: the notice alone. */
export const MIN_REMOVAL_TOKENS = 120;

/**
 * Text in place of messages removed without a model: the previous summary, their number, and the user's newest words.
 * @param previousBody kept whole
 */
export function removalBody(
  head: readonly ViewMessage[],
  previousBody: string,
  limitTokens: number,
  countText: (text: string) => number,
): string {
  const { kept, quotes } = takeQuotes(previousBody);
  const userMessages = head.filter(({ role }) => role === 'user').toReversed();
  const notice = `${HEADING}\n${head.length} messages were removed to make room. What they did is not known here: look before repeating work.`;
  const bodyOf = (lines: readonly string[]): string =>
    [
      ...(kept === '' ? [] : [kept]),
      lines.length === 0 ? notice : `${notice}\nThe user said, the newest first:\n${lines.join('\n')}`,
    ].join('\n\n');
  const lines: string[] = [];
  for (const line of [...userMessages.flatMap(quoteOf), ...quotes]) {
    if (countText(bodyOf([...lines, line])) > limitTokens) break;
    lines.push(line);
  }
  return bodyOf(lines);
}

function quoteOf({ seq, parts }: ViewMessage): string[] {
  const text = userText(parts);
  return text === null
    ? []
    : [`- ${messageRef(seq)}: ${keepHeadAndTail(text, QUOTE_CHARS).text.replaceAll(/\s+/g, ' ').trim()}`];
}

/** Takes an earlier removal out of the body, so that there is only one notice. */
function takeQuotes(body: string): { kept: string; quotes: string[] } {
  const at = body.lastIndexOf(HEADING);
  if (at < 0) return { kept: body, quotes: [] };
  const quotes = body
    .slice(at)
    .split('\n')
    .filter((line) => line.startsWith('- '));
  return { kept: body.slice(0, at).trim(), quotes };
}
