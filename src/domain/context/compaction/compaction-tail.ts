import { itemsForModel, outputForModel } from '../../model/model-calls.ts';
import { shownParts } from '../../model/shown-parts.ts';
import type { Part, ToolPart, ViewMessage, ViewPart } from '../../transcript/message.ts';
import { outputText } from '../../transcript/output-text.ts';
import { isSettledCall } from '../../transcript/tool-call.ts';

/** A message of the view, summary excluded, with its tokens. An assistant message is a whole step, results included. */
export type SizedMessage = Readonly<{ message: ViewMessage; tokens: number }>;

/** Start of the messages that no compaction may take; `length` if there are none. */
export function mandatoryStart(sized: readonly SizedMessage[]): number {
  let start = sized.length;
  while (start > 0 && sized[start - 1]?.message.role === 'user') start--;
  const newest = sized[start - 1]?.message;
  // The model has not read these results yet: without them it would make the same calls again.
  return newest?.parts.some((part) => part.type === 'tool') === true ? start - 1 : start;
}

export type TailOptions = Readonly<{
  /** Budget of the newest steps. */
  tailTokens: number;
  /** Limit of the tail. Up to it `keepRecentMessages` and `preserveLastNTurns` may exceed the budget. */
  roomTokens: number;
  keepRecentMessages?: number | undefined;
  preserveLastNTurns?: number | undefined;
}>;

/**
 * Start of the tail: the newest steps within their budget, more if the agent asks for it and there is room, and always
 * the mandatory messages. Cuts fall between messages, so that calls keep their results.
 */
export function tailStart(sized: readonly SizedMessage[], options: TailOptions): number {
  const mandatory = mandatoryStart(sized);
  const messages = options.keepRecentMessages ?? 0;
  const wanted = Math.min(sized.length - messages, turnStart(sized, options.preserveLastNTurns ?? 0));
  let tokens = sumTokens(sized.slice(mandatory));
  let start = mandatory;
  for (; start > 0; start--) {
    tokens += sized[start - 1]?.tokens ?? 0;
    const limit = start - 1 >= wanted ? Math.max(options.tailTokens, options.roomTokens) : options.tailTokens;
    if (tokens > Math.min(limit, options.roomTokens)) break;
  }
  return start;
}

/** Start of the last `turns` turns. A turn is a row of user messages and the steps after it. */
function turnStart(sized: readonly SizedMessage[], turns: number): number {
  let left = turns;
  let start = sized.length;
  for (let index = sized.length - 1; index >= 0 && left > 0; index--) {
    const isUser = sized[index]?.message.role === 'user';
    if (!isUser || sized[index - 1]?.message.role === 'user') continue;
    start = index;
    left--;
  }
  return start;
}

export const sumTokens = (sized: readonly SizedMessage[]): number => sized.reduce((sum, { tokens }) => sum + tokens, 0);

export type TailMark = Readonly<{ messageId: string; index: number; viewLimitChars: number; originalTokens: number }>;

/** A shorter excerpt says nothing. */
const MIN_SHOWN_CHARS = 400;

/** @returns the marks, and the messages with them */
export function capResults(
  messages: readonly ViewMessage[],
  limitTokens: number,
  countText: (text: string) => number,
): Readonly<{ messages: ViewMessage[]; marks: TailMark[] }> {
  const marks: TailMark[] = [];
  const capped = messages.map((message): ViewMessage => {
    const visibleParts = shownParts(message);
    const parts = message.parts.map((part, index): ViewPart => {
      const limit = limitOf(visibleParts[index], limitTokens, countText);
      if (limit === null || part.marks?.pruned === true) return part;
      marks.push({ messageId: message.id, index, ...limit });
      return { ...part, marks: { ...part.marks, viewLimitChars: limit.viewLimitChars } };
    });
    return { ...message, parts };
  });
  return { messages: capped, marks };
}

function limitOf(
  visible: Part | undefined,
  limitTokens: number,
  countText: (text: string) => number,
): Pick<TailMark, 'viewLimitChars' | 'originalTokens'> | null {
  if (visible?.type !== 'tool' || visible.output === undefined || !isSettledCall(visible.state)) return null;
  // An error tells the model which call not to repeat.
  if (visible.state === 'error') return null;
  const text = resultText(visible);
  const originalTokens = Math.ceil(countText(text));
  if (originalTokens <= limitTokens) return null;
  const viewLimitChars = Math.max(MIN_SHOWN_CHARS, Math.floor((text.length * limitTokens) / originalTokens));
  return viewLimitChars < text.length ? { viewLimitChars, originalTokens } : null;
}

/** The result of a call as text, as the model reads it. */
export function resultText(part: ToolPart): string {
  const items = itemsForModel(part);
  if (items.length > 0) return outputText({ type: 'content', value: items });
  const output = outputForModel(part);
  if (output.type === 'json' || output.type === 'content') return JSON.stringify(output.value);
  return output.type === 'execution-denied' ? (output.reason ?? '') : output.value;
}
