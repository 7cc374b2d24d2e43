import { strippedFileNotice } from '../../model/model-frames.ts';
import { insteadOfFile } from '../../model/shown-parts.ts';
import type { FilePart, Part, ViewMessage } from '../../transcript/message.ts';
import { fileRef, messageRef, READER_TOOL } from '../../transcript/refs.ts';
import { keepHeadAndTail, shortenCut } from '../../truncate.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import {
  capResults,
  mandatoryStart,
  type SizedMessage,
  sumTokens,
  type TailMark,
  tailStart,
} from './compaction-tail.ts';
import { composeSummary, type FirstUser, type PreviousSummary, readSummary, userText } from './summary-document.ts';
import { type ListBounds, mergeResources, type TouchedResource, touchedResources } from './touched-files.ts';
import { addUserMessages, NO_USER_MESSAGES, type UserMessages } from './user-messages.ts';

export type PlanInput = Readonly<{
  view: readonly ViewMessage[];
  /** Real tokens, the ratio included. */
  tokensOf: (message: ViewMessage) => number;
  countText: (text: string) => number;
  overheadTokens: number;
  thresholds: Thresholds;
  keepRecentMessages?: number | undefined;
  preserveLastNTurns?: number | undefined;
  /** Most tokens of the text that replaces such a head. */
  bodyTokens: (headTokens: number) => number;
  /** A view that no step has used since the last compaction may be compacted again, because it overflowed. */
  mayRepeat: boolean;
  stripMedia: boolean;
}>;

/** Input of a plan without the part that the strategy decides. */
export type PlanBase = Omit<PlanInput, 'bodyTokens'>;

/** A compaction that helps if the text for the head keeps within `bodyTokens`. */
export type CompactPlan = Readonly<{
  kind: 'compact';
  /** The first and the last message that this summary newly replaces. */
  fromSeq: number;
  uptoSeq: number;
  head: readonly ViewMessage[];
  previousSummary: PreviousSummary | null;
  /** The newest messages, unchanged except for `marks`. */
  tail: readonly ViewMessage[];
  viewStartSeq: number;
  marks: readonly TailMark[];
  firstUser: FirstUser | null;
  userMessages: UserMessages;
  /** The last user message, verbatim after the summary; empty if the tail holds it. */
  carried: readonly Part[];
  resources: readonly TouchedResource[];
  bodyTokens: number;
  targetTokens: number;
  tokensBefore: number;
}>;

export type TooLarge = Readonly<{
  kind: 'too_large';
  what: 'overhead' | 'user_message' | 'tool_result' | 'step';
  messageSeq?: number;
  tokens: number;
  usableTokens: number;
}>;

export type CompactionPlan =
  | CompactPlan
  | Readonly<{ kind: 'nothing'; reason: 'nothing_new' | 'no_gain'; tokensBefore: number }>
  | TooLarge;

/** Largest first user message, as a share of `compactToTokens`. A larger one is shown by its head and tail. */
export const MAX_FIRST_USER_SHARE = 0.25;
/** The same if the view does not fit otherwise. */
const LEAST_FIRST_USER_TOKENS = 500;
const LISTED_RESOURCES = 40;
const CHARS_PER_LISTED_TOKEN = 3;
/** Caps of each tool result in the tail, as shares of `usable`. Used if the view misses its target otherwise. */
const RESULT_CAP_SHARES = [0.05, 0.0125] as const;

export function listBounds({ summaryTokens }: Pick<Thresholds, 'summaryTokens'>): ListBounds {
  return { entries: LISTED_RESOURCES, chars: summaryTokens * CHARS_PER_LISTED_TOKEN };
}

/**
 * Plans a compaction before any model is asked, so that a useless one never begins. Takes the largest tail with which
 * the view meets its target and shrinks enough, and caps the tail's results if need be.
 */
export function planCompaction(input: PlanInput): CompactionPlan {
  const firstUserTokens = input.thresholds.compactToTokens * MAX_FIRST_USER_SHARE;
  const plan = planWithin({ ...input, firstUserTokens });
  if (plan.kind !== 'too_large' || firstUserTokens <= LEAST_FIRST_USER_TOKENS) return plan;
  const least = planWithin({ ...input, firstUserTokens: LEAST_FIRST_USER_TOKENS });
  return least.kind === 'compact' ? least : plan;
}

type BoundedInput = PlanInput &
  Readonly<{
    /** Most tokens of the first user message in the summary. */
    firstUserTokens: number;
  }>;

function planWithin(input: BoundedInput): CompactionPlan {
  const { view, thresholds, overheadTokens } = input;
  const previous = readSummary(view);
  const rest = (previous === null ? view : view.slice(1)).map((message) => sized(input, message));
  const summaryTokens = view
    .slice(0, view.length - rest.length)
    .reduce((sum, message) => sum + input.tokensOf(message), 0);
  const tokensBefore = overheadTokens + summaryTokens + sumTokens(rest);
  const tooLarge = findTooLarge(input, rest, previous);
  if (tooLarge !== null) return tooLarge;
  const isUsed = previous === null || rest.some(({ message }) => message.seq > previous.seq);
  if (!isUsed && !input.mayRepeat) return { kind: 'nothing', reason: 'nothing_new', tokensBefore };
  const candidates = candidatesOf(input, rest, previous, tokensBefore);
  const enough = tokensBefore * (1 - thresholds.compactionReductionShare);
  const gaining = candidates.filter(({ projectedTokens }) => projectedTokens <= enough);
  const best = gaining.find(({ projectedTokens }) => projectedTokens <= thresholds.compactToTokens);
  if (best !== undefined) return best.plan;
  // The target is out of reach: a smaller view that fits is still better.
  const smallest = gaining.toSorted((a, b) => a.projectedTokens - b.projectedTokens)[0];
  if (smallest !== undefined && smallest.projectedTokens <= thresholds.usableTokens) {
    return { ...smallest.plan, targetTokens: thresholds.usableTokens };
  }
  if (tokensBefore <= thresholds.usableTokens) return { kind: 'nothing', reason: 'no_gain', tokensBefore };
  return onlyLast(input, rest, previous, tokensBefore) ?? largestOf(input, rest);
}

/**
 * Last resort: keeps only the last user message. An unanswered one before it may be larger than the window, and would
 * end every run.
 */
function onlyLast(
  input: BoundedInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  tokensBefore: number,
): CompactPlan | null {
  const { usableTokens } = input.thresholds;
  if (rest.at(-1)?.message.role !== 'user') return null;
  const least = candidate(input, { rest, previous, tokensBefore }, rest.length - 1, null);
  if (least === null || least.projectedTokens > usableTokens) return null;
  return { ...least.plan, targetTokens: usableTokens };
}

const sized = (input: PlanInput, message: ViewMessage): SizedMessage => ({ message, tokens: input.tokensOf(message) });

type Candidate = Readonly<{ plan: CompactPlan; projectedTokens: number }>;

function candidatesOf(
  input: BoundedInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  tokensBefore: number,
): Candidate[] {
  const { thresholds } = input;
  const starts = startsOf(input, rest, previous);
  const least = starts.at(-1) ?? rest.length;
  const shapes = [
    ...starts.map((start) => ({ start, capTokens: null })),
    ...RESULT_CAP_SHARES.map((share) => ({ start: least, capTokens: Math.floor(thresholds.usableTokens * share) })),
  ];
  return shapes.flatMap(
    ({ start, capTokens }) => candidate(input, { rest, previous, tokensBefore }, start, capTokens) ?? [],
  );
}

/** Possible starts of the tail: with its whole budget, half of it, a quarter, and only the mandatory messages. */
function startsOf(input: BoundedInput, rest: readonly SizedMessage[], previous: PreviousSummary | null): number[] {
  const { thresholds, overheadTokens, keepRecentMessages, preserveLastNTurns } = input;
  const beside = overheadTokens + textTokens(input, rest, previous, rest.length) + input.bodyTokens(sumTokens(rest));
  const roomTokens = Math.max(0, thresholds.compactToTokens - beside);
  const wanted = tailStart(rest, {
    tailTokens: thresholds.tailTokens,
    roomTokens,
    keepRecentMessages,
    preserveLastNTurns,
  });
  const smaller = [1 / 2, 1 / 4, 0].map((share) =>
    tailStart(rest, { tailTokens: thresholds.tailTokens * share, roomTokens }),
  );
  return [...new Set([wanted, ...smaller])].sort((a, b) => a - b);
}

/** Tokens of everything that replaces the head, except the body. */
function textTokens(
  input: BoundedInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  start: number,
): number {
  const { parts } = carriedOf(input, rest, previous, start);
  return input.tokensOf({ id: '', seq: 0, role: 'user', model: null, parts });
}

function candidate(
  input: BoundedInput,
  {
    rest,
    previous,
    tokensBefore,
  }: Readonly<{ rest: readonly SizedMessage[]; previous: PreviousSummary | null; tokensBefore: number }>,
  start: number,
  capTokens: number | null,
): Candidate | null {
  const head = rest.slice(0, start);
  const first = head[0]?.message;
  const last = head.at(-1)?.message;
  if (first === undefined || last === undefined) return null;
  const { thresholds, countText } = input;
  const tail = rest.slice(start).map(({ message }) => message);
  const capped = capTokens === null ? { messages: tail, marks: [] } : capResults(tail, capTokens, countText);
  const { firstUser, userMessages, carried, resources, parts } = carriedOf(input, rest, previous, start);
  const bodyTokens = input.bodyTokens(sumTokens(head));
  const projectedTokens =
    input.overheadTokens +
    input.tokensOf({ id: '', seq: 0, role: 'user', model: null, parts }) +
    bodyTokens +
    capped.messages.reduce((sum, message) => sum + input.tokensOf(message), 0);
  const plan: CompactPlan = {
    kind: 'compact',
    fromSeq: first.seq,
    uptoSeq: last.seq,
    head: head.map(({ message }) => message),
    previousSummary: previous,
    tail,
    viewStartSeq: tail[0]?.seq ?? last.seq + 1,
    marks: capped.marks,
    firstUser,
    userMessages,
    carried,
    resources,
    bodyTokens,
    targetTokens: thresholds.compactToTokens,
    tokensBefore,
  };
  return { plan, projectedTokens };
}

type Carried = Readonly<{
  firstUser: FirstUser | null;
  userMessages: UserMessages;
  carried: readonly Part[];
  resources: readonly TouchedResource[];
  /** The summary's message with an empty body. */
  parts: readonly Part[];
}>;

function carriedOf(
  input: BoundedInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  start: number,
): Carried {
  const messages = rest.map(({ message }) => message);
  const lastIndex = messages.findLastIndex(({ role }) => role === 'user');
  const last = messages[lastIndex];
  const carried =
    last === undefined
      ? carriedAgain(previous, input.stripMedia)
      : lastIndex < start
        ? withoutMarks(last, input.stripMedia)
        : [];
  const head = messages.slice(0, start);
  const firstUser = firstUserOf(input, head, previous, carried);
  const userMessages = addUserMessages(previous?.userMessages ?? NO_USER_MESSAGES, head);
  const resources = mergeResources(touchedResources(messages), previous?.resources ?? []);
  const document = { round: 1, fromSeq: 1, uptoSeq: 1, firstUser, body: '', userMessages, resources };
  const text = composeSummary(document, listBounds(input.thresholds));
  return { firstUser, userMessages, carried, resources, parts: [{ type: 'compaction', text }, ...carried] };
}

function firstUserOf(
  input: BoundedInput,
  head: readonly ViewMessage[],
  previous: PreviousSummary | null,
  carried: readonly Part[],
): FirstUser | null {
  const { countText, firstUserTokens } = input;
  // A text that was cut for one model is cut further for a smaller one, and never grows back.
  if (previous?.firstUser?.at === 'summary') {
    const { seq, text } = previous.firstUser;
    return { at: 'summary', seq, text: cutToTokens(text, firstUserTokens, countText, seq) };
  }
  const inHead = head.find(({ role }) => role === 'user');
  const text = userText(previous?.firstUser?.at === 'after_summary' ? previous.carried : (inHead?.parts ?? []));
  const seq = previous?.firstUser?.seq ?? inHead?.seq;
  if (text === null || seq === undefined) return null;
  if (userText(carried) === text) return { at: 'after_summary', seq };
  return { at: 'summary', seq, text: cutToTokens(text, firstUserTokens, countText, seq) };
}

/** Head and tail of a user message within `limitTokens`, with the id for reading it whole. */
function cutToTokens(text: string, limitTokens: number, countText: (text: string) => number, seq: number): string {
  const hint = `: read it whole with ${READER_TOOL}, id ${messageRef(seq)}`;
  let kept = text;
  for (let chars = text.length, tokens = countText(text); tokens > limitTokens && chars > 1; tokens = countText(kept)) {
    chars = Math.floor(Math.min(chars * 0.95, (chars * limitTokens) / tokens));
    // The notice in a text that an earlier summary cut keeps naming its original length.
    kept = shortenCut(text, chars, hint) ?? keepHeadAndTail(text, chars, hint).text;
  }
  return kept;
}

function withoutMarks({ seq, parts }: ViewMessage, stripsMedia: boolean): Part[] {
  return parts.flatMap(({ marks, ...part }, index): Part[] => {
    if (part.type === 'file') return [stripsMedia || marks?.mediaStripped === true ? named(part, seq, index) : part];
    return part.type === 'text' ? [part] : [];
  });
}

/** The user message after the previous summary. It follows the summary in the same message, hence `index + 1`. */
function carriedAgain(previous: PreviousSummary | null, stripsMedia: boolean): Part[] {
  if (previous === null) return [];
  return previous.carried.map((part, index) =>
    stripsMedia && part.type === 'file' ? named(part, previous.seq, index + 1) : part,
  );
}

const named = (part: FilePart, seq: number, index: number): Part =>
  insteadOfFile(part, strippedFileNotice(part.mediaType, part.filename, fileRef(seq, index)));

/** Finds content that no compaction can make fit: first the fixed overhead, then the last user message. */
function findTooLarge(
  input: PlanInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
): TooLarge | null {
  const { overheadTokens, thresholds } = input;
  const { usableTokens } = thresholds;
  if (overheadTokens > usableTokens) {
    return { kind: 'too_large', what: 'overhead', tokens: overheadTokens, usableTokens };
  }
  const user = rest.findLast(({ message }) => message.role === 'user') ?? carriedMessage(input, previous);
  if (user !== null && overheadTokens + user.tokens > usableTokens) {
    const { message, tokens } = user;
    return { kind: 'too_large', what: 'user_message', messageSeq: message.seq, tokens, usableTokens };
  }
  return null;
}

function carriedMessage(input: PlanInput, previous: PreviousSummary | null): SizedMessage | null {
  if (previous === null || previous.carried.length === 0) return null;
  const { messageId: id, seq, carried: parts } = previous;
  return sized(input, { id, seq, role: 'user', model: null, parts });
}

function largestOf(input: PlanInput, rest: readonly SizedMessage[]): TooLarge {
  const { usableTokens } = input.thresholds;
  const mandatory = rest.slice(mandatoryStart(rest));
  const [largest] = (mandatory.length > 0 ? mandatory : rest).toSorted((a, b) => b.tokens - a.tokens);
  if (largest === undefined) return { kind: 'too_large', what: 'overhead', tokens: input.overheadTokens, usableTokens };
  const { message, tokens } = largest;
  const results = message.parts.reduce(
    (sum, part) => sum + (part.type === 'tool' ? input.tokensOf({ ...message, parts: [part] }) : 0),
    0,
  );
  const what = message.role === 'user' ? 'user_message' : results > tokens / 2 ? 'tool_result' : 'step';
  return { kind: 'too_large', what, messageSeq: message.seq, tokens, usableTokens };
}
