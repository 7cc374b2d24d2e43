import { fileForModel } from '../../model/model-files.ts';
import { filesOfOutput } from '../../model/shown-media.ts';
import { prunedCall, shownPart } from '../../model/shown-parts.ts';
import type { PartMarks, ToolPart, ViewMessage, ViewPart } from '../../transcript/message.ts';
import { outputRef } from '../../transcript/refs.ts';
import { isSettledCall } from '../../transcript/tool-call.ts';
import type { Worth } from '../decide.ts';
import { compactionDueAt, type Outlook, outlookFor, savedByPrune } from '../expected-cost.ts';
import type { ContextPolicy } from '../limits/policy.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import { estimateMessage, estimateToolCall, estimateToolResult, totalOf } from '../meter/message-tokens.ts';
import type { ContextState } from '../meter/state.ts';
import type { TokenCounter } from '../meter/tokens.ts';

/** A mark that the plan asks for. */
export type PlannedMark = PartMarks & Readonly<{ messageId: string; index: number; originalTokens: number }>;

type PruneThresholds = Pick<
  Thresholds,
  'pruneAtTokens' | 'pruneProtectTokens' | 'pruneProtectTurns' | 'pruneMinimumTokens'
>;

export type PruneInput = Readonly<{
  view: readonly ViewMessage[];
  count: TokenCounter;
  /** Real tokens per estimated token: `ratioOf` of the session's calibration. */
  ratio: number;
  thresholds: PruneThresholds;
  policy: ContextPolicy['prune'];
  /** With the measured tokens of the next request. */
  outlook: Outlook;
  /** Somebody asked for it: then it need not be due, nor worth its while. What is protected stays protected. */
  force?: boolean;
}>;

export type PrunePlan = Readonly<
  | { kind: 'nothing'; reason: 'disabled' | 'not_due' | 'nothing_prunable' | 'too_little' | 'does_not_pay' }
  | {
      kind: 'prune';
      marks: readonly PlannedMark[];
      prunedCount: number;
      savedTokens: number;
      /** Names of the tools whose calls are cleared, sorted. */
      prunedTools: readonly string[];
    }
>;

/** Estimated tokens. To clear a call that frees less takes more from the model than it gives to the window. */
const MIN_SAVED_TOKENS = 20;

/** What a prune is decided from, for a view that measures so many tokens. */
export function pruneInputOf(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
  usedTokens: number,
): PruneInput {
  const { thresholds, policy, count, ratioOf } = meter;
  const outlook = outlookFor(meter, state, view, usedTokens);
  return { view, count, ratio: ratioOf(state), thresholds, policy: policy.prune, outlook };
}

/**
 * Decides which old tool calls the view shows cleared from now on. Every prune breaks the provider's cached prefix, so
 * one clears all that may be cleared, and only where that pays or is needed.
 *
 * - Due from `pruneAtTokens` on, and only where it frees the minimum.
 * - It pays where the steps still to come save more than the rewrite costs, by the model's own prices. Nobody knows how
 *   many there are: the longer a session has gone on, the longer it is expected to.
 * - It is needed where the view would have to be compacted without it: a compaction costs more, and forgets.
 * - Protected are the newest calls: as many as fit into `pruneProtectTokens`, of the last `pruneProtectTurns` user
 *   turns. A run can be one turn of hundreds of steps, and a turn can be tiny, so both limits hold. What a call weighs
 *   here is what a prune could clear of it: its output and the long texts of its input. Otherwise a session of file
 *   writes, with their short outputs, would protect everything.
 * - Never cleared: results that no model call has read yet; calls without an outcome; calls of protected tools; what
 *   the provider ran itself, whose results go back in a form of its own; the summary and whatever stands before it.
 * - Errors tell the model what not to try again, and are short: they go last, where without them the view would still
 *   have to be compacted. A compaction would take them too, and not leave an id to read them by.
 *
 * Idempotent: what is left after a prune gives no other one.
 */
export function planPrune(input: PruneInput): PrunePlan {
  const { ratio } = input;
  const reason = reasonAgainst(input);
  if (reason !== null) return { kind: 'nothing', reason };
  const newestFirst = choose(input, [...findPrunable(input)]);
  const chosen = newestFirst.toReversed();
  if (chosen.length === 0) return { kind: 'nothing', reason: 'nothing_prunable' };
  if (!isEnough(input, savedBy(chosen))) return { kind: 'nothing', reason: 'too_little' };
  if (!isNeeded(input) && !pays(input, newestFirst)) return { kind: 'nothing', reason: 'does_not_pay' };
  return {
    kind: 'prune',
    marks: chosen.map(({ messageId, index, shown, resultEstimate }) => ({
      messageId,
      index,
      pruned: true,
      originalTokens: Math.ceil(ratio * (estimateToolCall(shown, input.count) + resultEstimate)),
    })),
    prunedCount: chosen.length,
    savedTokens: Math.floor(ratio * savedBy(chosen)),
    prunedTools: [...new Set(chosen.map((candidate) => candidate.shown.toolName))].toSorted(),
  };
}

/**
 * Whether `planPrune` would clear anything. Every step of a session that is past the threshold asks, so it reads no
 * more of the view than the answer takes: the newest outputs until what is protected, the minimum and the cost of the
 * rewrite are made up.
 */
export function isPruneWorthwhile(input: PruneInput): boolean {
  if (reasonAgainst(input) !== null) return false;
  if (!isNeeded(input)) return pays(input, withoutErrors(findPrunable(input)));
  const found: Candidate[] = [];
  let savedEstimate = 0;
  for (const candidate of findPrunable(input)) {
    found.push(candidate);
    if (candidate.isError) continue;
    savedEstimate += candidate.savedEstimate;
    // Enough without the errors is enough with them.
    if (isEnough(input, savedEstimate)) return true;
  }
  const chosen = choose(input, found);
  return chosen.length > 0 && isEnough(input, savedBy(chosen));
}

/** What is worth its while for a view that measures so many tokens. */
export const worthOf = (
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
  usedTokens: number,
): Worth => ({
  prune: () => isPruneWorthwhile(pruneInputOf(meter, state, view, usedTokens)),
  compaction: () => usedTokens >= compactionDueAt(outlookFor(meter, state, view, usedTokens)),
});

function reasonAgainst({ thresholds, policy, outlook, force = false }: PruneInput): 'disabled' | 'not_due' | null {
  if (force) return null;
  if (!policy.enabled) return 'disabled';
  return outlook.usedTokens < thresholds.pruneAtTokens ? 'not_due' : null;
}

/** Whatever it costs: without it a compaction is due, or somebody asks for it. */
const isNeeded = ({ outlook, force = false }: PruneInput): boolean =>
  force || outlook.usedTokens >= compactionDueAt(outlook);

function isEnough({ ratio, thresholds, force = false }: PruneInput, savedEstimate: number): boolean {
  return force || Math.floor(ratio * savedEstimate) >= thresholds.pruneMinimumTokens;
}

/** The errors only where the view would have to be compacted without them. */
function choose(input: PruneInput, prunable: readonly Candidate[]): readonly Candidate[] {
  const others = [...withoutErrors(prunable)];
  const leftTokens = input.outlook.usedTokens - Math.floor(input.ratio * savedBy(others));
  return leftTokens >= compactionDueAt(input.outlook) ? prunable : others;
}

function* withoutErrors(candidates: Iterable<Candidate>): Generator<Candidate> {
  for (const candidate of candidates) if (!candidate.isError) yield candidate;
}

/**
 * Whether a prune that frees the minimum is expected to cost less than it saves: what is cleared is not read again by
 * the steps that are still to come, and a compaction comes later or never, against one rewrite of all messages. Reads no
 * more of the candidates than the answer takes.
 */
function pays(input: PruneInput, candidates: Iterable<Candidate>): boolean {
  let savedEstimate = 0;
  for (const candidate of candidates) {
    savedEstimate += candidate.savedEstimate;
    if (isEnough(input, savedEstimate) && savedByPrune(input.outlook, input.ratio * savedEstimate) > 0) return true;
  }
  return false;
}

type Candidate = Call & Readonly<{ messageId: string; isError: boolean }>;

/** Estimated tokens, before the ratio. */
const savedBy = (candidates: readonly Candidate[]): number =>
  candidates.reduce((sum, candidate) => sum + candidate.savedEstimate, 0);

/** What may be cleared, the newest first. */
function* findPrunable(input: PruneInput): Generator<Candidate> {
  const { view, thresholds, ratio } = input;
  const lastAnswer = view.findLastIndex((message) => message.role === 'assistant');
  let turns = 0;
  let isProtecting = true;
  let protectedTokens = 0;
  for (const [position, message] of [...view.entries()].toReversed()) {
    if (message.parts.some((part) => part.type === 'compaction')) break;
    // User messages in a row are one turn.
    if (message.role === 'user' && view[position + 1]?.role !== 'user') turns++;
    isProtecting &&= turns < thresholds.pruneProtectTurns;
    const isUnread = position === lastAnswer;
    for (const call of callsOf(message, input).toReversed()) {
      const weight = ratio * call.clearableEstimate;
      isProtecting &&= isUnread || protectedTokens + weight <= thresholds.pruneProtectTokens;
      if (isProtecting || isUnread) protectedTokens += weight;
      else if (call.savedEstimate >= MIN_SAVED_TOKENS) {
        const isError = call.shown.state !== 'completed';
        yield { ...call, messageId: message.id, isError };
      }
    }
  }
}

type Call = Readonly<{
  index: number;
  /** The call as the view shows it. */
  shown: ToolPart;
  /** Estimated tokens: of its result, of what a prune could clear of the call, and of what that would save. */
  resultEstimate: number;
  clearableEstimate: number;
  savedEstimate: number;
}>;

function callsOf(message: ViewMessage, { count, policy }: PruneInput): Call[] {
  if (message.role !== 'assistant') return [];
  return message.parts.flatMap((part, index): Call[] => {
    if (part.type !== 'tool' || part.marks?.pruned === true) return [];
    if (!isSettledCall(part.state) || part.providerExecuted === true) return [];
    if (policy.protectedTools.includes(part.toolName)) return [];
    const shown = shownPart(message, part, index);
    if (shown.type !== 'tool') return [];
    const after = prunedCall(shown, outputRef(message.seq, index));
    const resultEstimate = estimateToolResult(shown, count);
    const clearedInput = clearedInputEstimate(shown, after, count);
    return [
      {
        index,
        shown,
        resultEstimate,
        clearableEstimate: resultEstimate + clearedInput,
        savedEstimate: resultEstimate - estimateToolResult(after, count) + clearedInput,
      },
    ];
  });
}

/** Most inputs are short and stay as they are: there is nothing to count then. */
function clearedInputEstimate(before: ToolPart, after: ToolPart, count: TokenCounter): number {
  if (after.input === before.input) return 0;
  return Math.max(0, estimateToolCall(before, count) - estimateToolCall(after, count));
}

export type MediaStripPlan = Readonly<{ marks: readonly PlannedMark[]; strippedCount: number; savedTokens: number }>;

/**
 * Takes images and files out of the view, for a request that was refused for its bytes: those are no matter of
 * tokens, 42 screenshots can be 15 % of a window and 34 MB. What the last user message brought stays if anything
 * else can go, so that the model sees what it is asked about; if nothing else can, it goes too. Oldest first.
 * Idempotent once nothing is left.
 */
export function planMediaStrip(input: Pick<PruneInput, 'view' | 'count' | 'ratio'>): MediaStripPlan {
  const lastUser = input.view.findLastIndex((message) => message.role === 'user');
  const all = input.view.flatMap((message, position) => filesOf(message, input).map((file) => ({ ...file, position })));
  const older = all.filter((file) => file.position < lastUser);
  const chosen = older.length > 0 ? older : all;
  return {
    marks: chosen.map(({ mark }) => mark),
    strippedCount: chosen.length,
    savedTokens: Math.max(0, Math.floor(chosen.reduce((sum, file) => sum + file.savedTokens, 0))),
  };
}

function isStrippable({ role }: ViewMessage, part: ViewPart): boolean {
  if (role === 'assistant') return filesOfOutput(part).length > 0;
  if (part.type !== 'file' || part.marks?.mediaStripped === true) return false;
  // What cannot be sent is a text already.
  return fileForModel(part).type === 'file' || part.url.startsWith('@blob:');
}

function filesOf(
  message: ViewMessage,
  { count, ratio }: Pick<PruneInput, 'count' | 'ratio'>,
): Readonly<{ mark: PlannedMark; savedTokens: number }>[] {
  return message.parts.flatMap((part, index) => {
    if (!isStrippable(message, part)) return [];
    const marked = { ...part, marks: { ...part.marks, mediaStripped: true as const } };
    const before = totalOf(estimateMessage({ ...message, parts: [part] }, count));
    const after = totalOf(estimateMessage({ ...message, parts: [marked] }, count));
    const originalTokens = Math.ceil(ratio * before);
    const mark: PlannedMark = { messageId: message.id, index, mediaStripped: true, originalTokens };
    return [{ mark, savedTokens: ratio * (before - after) }];
  });
}
