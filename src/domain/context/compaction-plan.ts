import type { Part, ViewMessage } from '../message.ts';
import { missingFileNotice } from '../model-frames.ts';
import { keepHeadAndTail } from '../truncate.ts';
import {
  capResults,
  mandatoryStart,
  type SizedMessage,
  sumTokens,
  type TailMark,
  tailStart,
} from './compaction-tail.ts';
import { composeSummary, type FirstUser, type PreviousSummary, readSummary, userText } from './summary-document.ts';
import type { Thresholds } from './thresholds.ts';
import { type ListBounds, mergeResources, type TouchedResource, touchedResources } from './touched-files.ts';

export type PlanInput = Readonly<{
  view: readonly ViewMessage[];
  /** Real tokens, the ratio included. */
  tokensOf: (message: ViewMessage) => number;
  countText: (text: string) => number;
  /** Instructions and tool schemas. */
  overheadTokens: number;
  thresholds: Thresholds;
  keepRecentMessages?: number | undefined;
  preserveLastNTurns?: number | undefined;
  /** Most tokens of the text that stands for the head. */
  bodyTokens: (headTokens: number) => number;
  /** A view that a compaction has just left, and no step has used, may be compacted further: it still overflowed. */
  mayRepeat: boolean;
  /** Images and files must go: the request was refused for its bytes. */
  stripMedia: boolean;
}>;

/** A compaction that will help, if the text that stands for the head keeps to its tokens. */
export type CompactPlan = Readonly<{
  kind: 'compact';
  /** The first and the last message that the summary newly stands for. */
  fromSeq: number;
  uptoSeq: number;
  head: readonly ViewMessage[];
  previousSummary: PreviousSummary | null;
  /** What stays as it is, but for the marks. */
  tail: readonly ViewMessage[];
  viewStartSeq: number;
  marks: readonly TailMark[];
  firstUser: FirstUser | null;
  /** The last real user message where the tail does not hold it: stands after the summary, verbatim. */
  carried: readonly Part[];
  resources: readonly TouchedResource[];
  bodyTokens: number;
  /** What the view may be afterwards. */
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

/** The first user message beyond this is shown by its head and tail. */
const MAX_FIRST_USER_TOKENS = 2_000;
const MAX_FIRST_USER_SHARE = 0.25;
const LISTED_RESOURCES = 40;
const CHARS_PER_LISTED_TOKEN = 3;
/**
 * Caps for the results of the tail, as shares of `usable`, where the view would not come down to its target otherwise.
 */
const RESULT_CAP_SHARES = [0.05, 0.0125] as const;

/** How much of the list of touched resources the view holds. */
export function listBounds({ summaryTokens }: Pick<Thresholds, 'summaryTokens'>): ListBounds {
  return { entries: LISTED_RESOURCES, chars: summaryTokens * CHARS_PER_LISTED_TOKEN };
}

/**
 * Plans a compaction: what is summarized, what stays, what is carried verbatim. Everything but the summary's text is
 * known before any model is asked, so a compaction that could not help is not begun: the plan takes the largest tail
 * with which the view comes down to its target and loses enough, if need be with its results capped.
 */
export function planCompaction(input: PlanInput): CompactionPlan {
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
  // The target is out of reach: what is left is still better than a view that does not fit.
  const smallest = gaining.toSorted((a, b) => a.projectedTokens - b.projectedTokens)[0];
  if (smallest !== undefined && smallest.projectedTokens <= thresholds.usableTokens) {
    return { ...smallest.plan, targetTokens: thresholds.usableTokens };
  }
  if (tokensBefore <= thresholds.usableTokens) return { kind: 'nothing', reason: 'no_gain', tokensBefore };
  return onlyLast(input, rest, previous, tokensBefore) ?? largestOf(input, rest);
}

/**
 * The last user message without those right before it, which nobody has answered. One of them that is larger than the
 * window has ended its run; it must not end every run after it.
 */
function onlyLast(
  input: PlanInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  tokensBefore: number,
): CompactPlan | null {
  const { usableTokens } = input.thresholds;
  if (rest.at(-1)?.message.role !== 'user') return null;
  const least = candidate(input, rest, previous, tokensBefore, rest.length - 1, null);
  if (least === null || least.projectedTokens > usableTokens) return null;
  return { ...least.plan, targetTokens: usableTokens };
}

const sized = (input: PlanInput, message: ViewMessage): SizedMessage => ({ message, tokens: input.tokensOf(message) });

type Candidate = Readonly<{ plan: CompactPlan; projectedTokens: number }>;

function candidatesOf(
  input: PlanInput,
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
    ({ start, capTokens }) => candidate(input, rest, previous, tokensBefore, start, capTokens) ?? [],
  );
}

/** Where the tail may begin: with its whole budget, with half of it, with a quarter, and with what is mandatory. */
function startsOf(input: PlanInput, rest: readonly SizedMessage[], previous: PreviousSummary | null): number[] {
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

/** Tokens of all that stands in place of the head but for the body. */
function textTokens(
  input: PlanInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  start: number,
): number {
  const { parts } = carriedOf(input, rest, previous, start);
  return input.tokensOf({ id: '', seq: 0, role: 'user', model: null, parts });
}

function candidate(
  input: PlanInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  tokensBefore: number,
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
  const { firstUser, carried, resources, parts } = carriedOf(input, rest, previous, start);
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
  carried: readonly Part[];
  resources: readonly TouchedResource[];
  /** The summary's message with an empty body. */
  parts: readonly Part[];
}>;

function carriedOf(
  input: PlanInput,
  rest: readonly SizedMessage[],
  previous: PreviousSummary | null,
  start: number,
): Carried {
  const messages = rest.map(({ message }) => message);
  const lastIndex = messages.findLastIndex(({ role }) => role === 'user');
  const last = messages[lastIndex];
  const carried = last === undefined ? (previous?.carried ?? []) : lastIndex < start ? withoutMarks(last) : [];
  const kept = input.stripMedia ? carried.map(withoutMedia) : carried;
  const firstUser = firstUserOf(input, messages.slice(0, start), previous, kept);
  const resources = mergeResources(touchedResources(messages), previous?.resources ?? []);
  const document = { round: 1, fromSeq: 1, uptoSeq: 1, firstUser, body: '', resources };
  const text = composeSummary(document, listBounds(input.thresholds));
  return { firstUser, carried: kept, resources, parts: [{ type: 'compaction', text }, ...kept] };
}

function firstUserOf(
  input: PlanInput,
  head: readonly ViewMessage[],
  previous: PreviousSummary | null,
  carried: readonly Part[],
): FirstUser | null {
  // As it stands in the summary before: what was cut for one model is not cut again for another.
  if (previous?.firstUser?.at === 'summary') return previous.firstUser;
  const inHead = head.find(({ role }) => role === 'user');
  const text = userText(previous?.firstUser?.at === 'after_summary' ? previous.carried : (inHead?.parts ?? []));
  if (text === null) return null;
  if (userText(carried) === text) return { at: 'after_summary' };
  const limit = Math.min(MAX_FIRST_USER_TOKENS, input.thresholds.usableTokens * MAX_FIRST_USER_SHARE);
  return { at: 'summary', text: cutToTokens(text, limit, input.countText) };
}

/** Head and tail of a text within so many tokens. A cut that is cut again would lose what it says about itself. */
function cutToTokens(text: string, limitTokens: number, countText: (text: string) => number): string {
  let kept = text;
  for (let chars = text.length, tokens = countText(text); tokens > limitTokens && chars > 1; tokens = countText(kept)) {
    chars = Math.floor(Math.min(chars * 0.95, (chars * limitTokens) / tokens));
    kept = keepHeadAndTail(text, chars).text;
  }
  return kept;
}

function withoutMarks({ parts }: ViewMessage): Part[] {
  return parts.flatMap(({ marks, ...part }) => {
    if (part.type === 'file') return [marks?.mediaStripped === true ? withoutMedia(part) : part];
    return part.type === 'text' ? [part] : [];
  });
}

const withoutMedia = (part: Part): Part =>
  part.type === 'file' ? { type: 'text', text: missingFileNotice(part.mediaType, part.filename) } : part;

/** What no compaction can make fit. The order says what is to blame: what is fixed first, then what came last. */
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

/** Names the largest of what must stay. */
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
