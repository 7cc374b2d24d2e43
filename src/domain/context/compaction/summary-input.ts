import { wireInput } from '../../model/model-calls.ts';
import { isBlank, NO_OUTPUT } from '../../model/model-frames.ts';
import { shownParts } from '../../model/shown-parts.ts';
import type { FilePart, ToolPart, ViewMessage } from '../../transcript/message.ts';
import { fileRef, messageRef, outputRef } from '../../transcript/refs.ts';
import { keepHeadAndTail } from '../../truncate.ts';
import { resultText } from './compaction-tail.ts';
import { removalBody } from './middle-removal.ts';

/** Limits of the texts that a summarizer is shown, in characters. */
export type InputCuts = Readonly<{ messageChars: number; resultChars: number; inputChars: number }>;

/** Enough to follow the events. The transcript keeps the whole text under its reference. */
export const DEFAULT_CUTS: InputCuts = { messageChars: 2_000, resultChars: 500, inputChars: 500 };
/** Used if the default would take too many requests. */
export const NARROW_CUTS: InputCuts = { messageChars: 600, resultChars: 120, inputChars: 120 };

/** A message as prose, so that no summarizer imitates its calls; without reasoning, media and empty errors. */
export function serializeMessage(message: ViewMessage, cuts: InputCuts = DEFAULT_CUTS): string {
  const who = message.role === 'user' ? 'The user wrote' : 'The assistant wrote';
  const lines = shownParts(message).flatMap((part, index): string[] => {
    if (part.type === 'text') return isBlank(part.text) ? [] : [describeText(who, part.text, message.seq, cuts)];
    if (part.type === 'compaction') return [`An earlier summary said: ${part.text}`];
    if (part.type === 'file') return [describeFile(part, fileRef(message.seq, index))];
    return part.type === 'tool' ? describeCall(part, outputRef(message.seq, index), cuts) : [];
  });
  return lines.length === 0 ? '' : defused(`[message ${message.seq}]\n${lines.join('\n')}`);
}

function describeText(who: string, text: string, seq: number, { messageChars }: InputCuts): string {
  const excerpt = cut(text, messageChars);
  return `${who}${excerpt === text ? '' : ` (all of it: ${messageRef(seq)})`}: ${excerpt}`;
}

const describeFile = ({ mediaType, filename }: FilePart, ref: string): string =>
  `A file was attached, which stays readable as ${ref}: ${filename ?? 'unnamed'} (${mediaType}).`;

function describeCall(part: ToolPart, ref: string, cuts: InputCuts): string[] {
  const text = resultText(part);
  const failed = part.state === 'error' || part.state === 'denied' || part.state === 'unknown';
  if (failed && text === NO_OUTPUT) return [];
  const input = cut(JSON.stringify(wireInput(part.input)), cuts.inputChars);
  const excerpt = cut(text, cuts.resultChars);
  const where = excerpt === text ? '' : ` (all of it: ${ref})`;
  const how = part.state === 'completed' ? 'The result was' : failed ? 'It failed with' : 'It has no result yet';
  return [`The tool ${part.toolName} was given ${input}. ${how}${where}: ${excerpt}`];
}

const cut = (text: string, maxChars: number): string => keepHeadAndTail(text, maxChars).text;

/** Keeps data from closing the tag that it stands in. */
const defused = (text: string): string =>
  text.replaceAll(/<(\/?)(transcript|previous_summary|summary_request)/g, '<$1_$2');

/** Splits the messages into pieces that each fit a request; cuts within a message only if it alone is too large. */
export function serializeMessages(
  messages: readonly ViewMessage[],
  pieceTokens: number,
  countText: CountText,
  cuts: InputCuts = DEFAULT_CUTS,
): string[] {
  return piecesOf(messages, pieceTokens, countText, cuts).map(({ text }) => text);
}

/**
 * The same in a number of pieces, at least 2, with shorter texts if needed. If even these are too many, a first piece
 * replaces the oldest messages by their number and quotes of the user.
 */
export function serializeWithin(
  messages: readonly ViewMessage[],
  limits: Readonly<{ pieceTokens: number; pieces: number }>,
  countText: CountText,
): string[] {
  const { pieceTokens } = limits;
  const whole = serializeMessages(messages, pieceTokens, countText, DEFAULT_CUTS);
  if (whole.length <= limits.pieces) return whole;
  const short = piecesOf(messages, pieceTokens, countText, NARROW_CUTS);
  const newest = short.length <= limits.pieces ? short : short.slice(1 - limits.pieces);
  const leftOut = messages.slice(0, newest[0]?.begunBefore);
  const notice = leftOut.length === 0 ? [] : [defused(removalBody(leftOut, '', pieceTokens, countText))];
  return [...notice, ...newest.map(({ text }) => text)];
}

type CountText = (text: string) => number;

/** A piece, and the number of messages that begin before it. */
type Piece = Readonly<{ text: string; begunBefore: number }>;

function piecesOf(
  messages: readonly ViewMessage[],
  pieceTokens: number,
  countText: CountText,
  cuts: InputCuts,
): Piece[] {
  const pieces: Piece[] = [];
  let texts: string[] = [];
  let tokens = 0;
  let begunBefore = 0;
  const close = () => {
    if (texts.length > 0) pieces.push({ text: texts.join('\n\n'), begunBefore });
    texts = [];
    tokens = 0;
  };
  for (const [index, message] of messages.entries()) {
    for (const [part, text] of fitting(serializeMessage(message, cuts), pieceTokens, countText).entries()) {
      const own = countText(text) + 1;
      if (tokens + own > pieceTokens) close();
      if (texts.length === 0) begunBefore = part === 0 ? index : index + 1;
      texts.push(text);
      tokens += own;
    }
  }
  close();
  return pieces;
}

/** Splits a message that is larger than a piece: a batch of very many calls, although each of its texts is cut. */
function fitting(text: string, pieceTokens: number, countText: CountText): string[] {
  if (text === '') return [];
  if (countText(text) + 1 <= pieceTokens || text.length < 2) return [text];
  const middle = text.lastIndexOf('\n', Math.floor(text.length / 2));
  const at = middle > 0 ? middle : Math.floor(text.length / 2);
  return [
    ...fitting(text.slice(0, at).toWellFormed(), pieceTokens, countText),
    ...fitting(text.slice(at).toWellFormed(), pieceTokens, countText),
  ];
}
