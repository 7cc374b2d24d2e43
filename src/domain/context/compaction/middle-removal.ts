import type { ViewMessage } from '../../transcript/message.ts';
import { messageRef } from '../../transcript/refs.ts';
import { keepHeadAndTail } from '../../truncate.ts';
import { userText } from './summary-document.ts';

const HEADING = '## Removed without a summary';
const QUOTE_CHARS = 300;

/** Least tokens of the text that stands for a removed middle: the notice alone. */
export const MIN_REMOVAL_TOKENS = 120;

/**
 * What stands for messages that are removed without a model: what the summary before said, how many went, and what the
 * user said in them, the newest first, as far as there is room.
 * @param previousBody the body of the summary before, kept whole
 * @param limitTokens most tokens of the text
 */
export function removalBody(
  head: readonly ViewMessage[],
  previousBody: string,
  limitTokens: number,
  countText: (text: string) => number,
): string {
  const { kept, quotes } = takeQuotes(previousBody);
  const said = head.filter(({ role }) => role === 'user').toReversed();
  const notice = `${HEADING}\n${head.length} messages were removed to make room. What they did is not known here: look before repeating work.`;
  const bodyOf = (lines: readonly string[]): string =>
    [
      ...(kept === '' ? [] : [kept]),
      lines.length === 0 ? notice : `${notice}\nThe user said, the newest first:\n${lines.join('\n')}`,
    ].join('\n\n');
  const lines: string[] = [];
  for (const line of [...said.flatMap(quoteOf), ...quotes]) {
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

/** A removal after a removal tells once what went. */
function takeQuotes(body: string): { kept: string; quotes: string[] } {
  const at = body.lastIndexOf(HEADING);
  if (at < 0) return { kept: body, quotes: [] };
  const quotes = body
    .slice(at)
    .split('\n')
    .filter((line) => line.startsWith('- '));
  return { kept: body.slice(0, at).trim(), quotes };
}
