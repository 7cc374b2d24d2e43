import { objectOf } from '../exact-json.ts';
import type {
  FilePart,
  Json,
  Part,
  TextPart,
  ToolOutput,
  ToolPart,
  ViewMessage,
  ViewPart,
} from '../transcript/message.ts';
import { textBeside, withText } from '../transcript/output-text.ts';
import { fileRef, outputRef } from '../transcript/refs.ts';
import { isSettledCall } from '../transcript/tool-call.ts';
import { keepHeadAndTail } from '../truncate.ts';
import { CLEARED_INPUT, clearedOutput, queuedLabel, shortenedOutput, strippedFileNotice } from './model-frames.ts';

/** Longer texts in a pruned call's input are cleared. Paths, ids and short commands describe the call, and stay. */
const MAX_KEPT_INPUT_CHARS = 500;

/**
 * The parts of a message as a request has them: the shown parts, and a label before the words of each queued message if
 * a step drained several. The request and the meter both take the parts from here. Indexes do not stay.
 */
export const requestParts = (message: ViewMessage): readonly Part[] => labelledParts(message, shownParts(message));

/** The same without the ids by which the session's model reads more: they mean something else in another session. */
export const partsWithoutRefs = (message: ViewMessage): readonly Part[] =>
  labelledParts(
    message,
    message.parts.map((part) => shownWith(message, part, () => undefined)),
  );

function labelledParts(message: ViewMessage, parts: readonly Part[]): readonly Part[] {
  if (message.role !== 'user') return parts;
  const total = parts.reduce((most, part) => Math.max(most, queuedNoOf(part) ?? 0), 0);
  return total === 0 ? parts : parts.flatMap((part) => labelled(part, total));
}

const queuedNoOf = (part: Part): number | undefined =>
  part.type === 'text' || part.type === 'file' ? part.queuedNo : undefined;

function labelled(part: Part, total: number): Part[] {
  const queuedNo = queuedNoOf(part);
  if (queuedNo === undefined) return [part];
  const label = queuedLabel(queuedNo, total);
  if (part.type === 'text') return [{ ...part, text: `${label} ${part.text}` }];
  return [{ type: 'text', text: label }, part];
}

/**
 * The parts of a message as the view shows them: placeholders replace parts by their marks, and indexes stay. Nothing
 * else reads the marks.
 */
export function shownParts(message: ViewMessage): readonly Part[] {
  if (!message.parts.some((part) => part.marks !== undefined)) return message.parts;
  return message.parts.map((part, index) => shownPart(message, part, index));
}

/** The same for the part at `index`. */
export const shownPart = (message: Pick<ViewMessage, 'role' | 'seq'>, part: ViewPart, index: number): Part =>
  shownWith(message, part, (format) => format(message.seq, index));

type RefWith = (format: (messageSeq: number, partIndex: number) => string) => string | undefined;

function shownWith({ role }: Pick<ViewMessage, 'role'>, viewPart: ViewPart, refWith: RefWith): Part {
  if (viewPart.marks === undefined) return viewPart;
  const { marks, ...part } = viewPart;
  // Files of the assistant are not sent, but a text in their place would be.
  if (part.type === 'file') return marks.mediaStripped && role === 'user' ? strippedFile(part, refWith(fileRef)) : part;
  if (part.type !== 'tool' || !isSettledCall(part.state)) return part;
  if (marks.pruned) return prunedCall(part, refWith(outputRef));
  const kept = marks.mediaStripped ? withoutFiles(part) : part;
  return marks.viewLimitChars === undefined ? kept : shortenedCall(kept, marks.viewLimitChars, refWith(outputRef));
}

function withoutFiles(part: ToolPart): ToolPart {
  if (part.output?.type !== 'content') return part;
  const value = part.output.value.map((item) =>
    item.type === 'file' ? { type: 'text' as const, text: strippedFileNotice(item.mediaType, item.filename) } : item,
  );
  return { ...part, output: { type: 'content', value } };
}

const strippedFile = (part: FilePart, ref: string | undefined): Part =>
  insteadOfFile(part, strippedFileNotice(part.mediaType, part.filename, ref));

/** A text in place of a user's file. A queued message that begins with the file begins with the text. */
export const insteadOfFile = ({ queuedNo }: FilePart, text: string): TextPart => ({
  type: 'text',
  text,
  ...(queuedNo !== undefined && { queuedNo }),
});

/** A call after a prune: an error stays an error, and short texts in the input stay. */
export function prunedCall(part: ToolPart, ref: string | undefined): ToolPart {
  return { ...part, input: withoutLongTexts(part.input), output: clearedOutputOf(part, clearedOutput(ref)) };
}

function clearedOutputOf({ state }: ToolPart, text: string): ToolOutput {
  if (state === 'denied') return { type: 'execution-denied', reason: text };
  return { type: state === 'error' ? 'error-text' : 'text', value: text };
}

/** Returns the same value if no text in it is too long. */
function withoutLongTexts(value: Json): Json {
  if (typeof value === 'string') return value.length > MAX_KEPT_INPUT_CHARS ? CLEARED_INPUT : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map(withoutLongTexts);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  const entries = Object.entries(value).map(([key, inner]) => [key, withoutLongTexts(inner)] as const);
  return entries.some(([key, inner]) => inner !== value[key]) ? (objectOf(entries) as Record<string, Json>) : value;
}

function shortenedCall(part: ToolPart, maxChars: number, ref: string | undefined): ToolPart {
  const { output } = part;
  if (output === undefined) return part;
  const excerpt = shortened(textBeside(output), maxChars, shortenedOutput(ref));
  return excerpt === null ? part : { ...part, output: withText(output, excerpt) };
}

/** Null: nothing would be gained. */
function shortened(text: string, maxChars: number, hint: string): string | null {
  const excerpt = keepHeadAndTail(text, maxChars, hint).text;
  return excerpt.length < text.length ? excerpt : null;
}
