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

export type PlannedMark = PartMarks & Readonly<{ messageId: string; index: number; originalTokens: number }>;

type PruneThresholds = Pick<
  Thresholds,
  'pruneAtTokens' | 'pruneProtectTokens' | 'pruneProtectTurns' | 'pruneMinimumTokens'
>;

export type PruneInput = Readonly<{
  view: readonly ViewMessage[];
  count: TokenCounter;
  ratio: number;
  thresholds: PruneThresholds;
  policy: ContextPolicy['prune'];
  /** With the measured tokens of the next request. */
  outlook: Outlook;
  /** Forced: the prune need not be due, nor pay. Protected calls stay protected. */
  force?: boolean;
}>;

export type PrunePlan = Readonly<
  | { kind: 'nothing'; reason: 'disabled' | 'not_due' | 'nothing_prunable' | 'too_little' | 'does_not_pay' }
  | {
      kind: 'prune';
      marks: readonly PlannedMark[];
      prunedCount: number;
      savedTokens: number;
      /** Names of the tools of cleared calls, sorted. */
      prunedTools: readonly string[];
    }
>;

/** In estimated tokens. Clearing a smaller call costs the model more than it frees. */
const MIN_SAVED_TOKENS = 20;

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
 * Decides which old tool calls the view shows as cleared. Every prune breaks the provider's cached prefix, so one prune
 * clears all that it may, and only if it pays or is needed.
 *
 * - Due from `pruneAtTokens` on, if it frees the minimum.
 * - Pays if the expected further steps save more than the rewrite costs, by the model's prices. The longer a session
 *   has lasted, the more steps are expected.
 * - Needed if a compaction would be due without it: a compaction costs more, and forgets.
 * - Protected: the newest calls that fit into `pruneProtectTokens`, within the last `pruneProtectTurns` user turns.
 *   Both limits hold, because a turn may have hundreds of steps or be tiny.
 * - A call weighs as much as a prune could clear of it: its output and the long texts of its input. Otherwise a session
 *   of file writes, with their short outputs, would protect everything.
 * - Never cleared: results that no model call has read yet, calls without an outcome, calls of protected tools, calls
 *   that the provider ran itself (their results go back in its own form), the summary and everything before it.
 * - Errors go last, and only if a compaction would be due without them: they are short, and tell the model which calls
 *   not to repeat. A compaction would remove them too, and leave no id to read them by.
 *
 * Idempotent: after a prune there is nothing more to clear.
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
    marks: chosen.map(({ messageId, index, visiblePart, resultEstimate }) => ({
      messageId,
      index,
      pruned: true,
      originalTokens: Math.ceil(ratio * (estimateToolCall(visiblePart, input.count) + resultEstimate)),
    })),
    prunedCount: chosen.length,
    savedTokens: Math.floor(ratio * savedBy(chosen)),
    prunedTools: [...new Set(chosen.map((candidate) => candidate.visiblePart.toolName))].toSorted(),
  };
}

/** Whether `planPrune` would clear anything. Every step past the threshold asks, so it reads no more than needed. */
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

/** Whether the prune is needed at any cost: it is forced, or a compaction is due without it. */
const isNeeded = ({ outlook, force = false }: PruneInput): boolean =>
  force || outlook.usedTokens >= compactionDueAt(outlook);

function isEnough({ ratio, thresholds, force = false }: PruneInput, savedEstimate: number): boolean {
  return force || Math.floor(ratio * savedEstimate) >= thresholds.pruneMinimumTokens;
}

/** Adds the errors only if a compaction would be due without them. */
function choose(input: PruneInput, prunable: readonly Candidate[]): readonly Candidate[] {
  const others = [...withoutErrors(prunable)];
  const leftTokens = input.outlook.usedTokens - Math.floor(input.ratio * savedBy(others));
  return leftTokens >= compactionDueAt(input.outlook) ? prunable : others;
}

function* withoutErrors(candidates: Iterable<Candidate>): Generator<Candidate> {
  for (const candidate of candidates) if (!candidate.isError) yield candidate;
}

/** Whether a prune of the minimum saves more than one rewrite of all messages costs. Reads no more than needed. */
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

/** Newest first. */
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
        const isError = call.visiblePart.state !== 'completed';
        yield { ...call, messageId: message.id, isError };
      }
    }
  }
}

type Call = Readonly<{
  index: number;
  visiblePart: ToolPart;
  /** Estimated tokens: of its result, of the part that a prune could clear, and of the saving. */
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
    const visiblePart = shownPart(message, part, index);
    if (visiblePart.type !== 'tool') return [];
    const after = prunedCall(visiblePart, outputRef(message.seq, index));
    const resultEstimate = estimateToolResult(visiblePart, count);
    const clearedInput = clearedInputEstimate(visiblePart, after, count);
    return [
      {
        index,
        visiblePart: visiblePart,
        resultEstimate,
        clearableEstimate: resultEstimate + clearedInput,
        savedEstimate: resultEstimate - estimateToolResult(after, count) + clearedInput,
      },
    ];
  });
}

/** Most inputs are short and stay as they are, so that nothing has to be counted. */
function clearedInputEstimate(before: ToolPart, after: ToolPart, count: TokenCounter): number {
  if (after.input === before.input) return 0;
  return Math.max(0, estimateToolCall(before, count) - estimateToolCall(after, count));
}

export type MediaStripPlan = Readonly<{ marks: readonly PlannedMark[]; strippedCount: number; savedTokens: number }>;

/**
 * Removes files from the view, oldest first, after a request was refused for its bytes: 42 screenshots can be 15 % of a
 * window and 34 MB. If there are older ones, those from the last user message on stay, so that the model sees the
 * subject of the question.
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
  // A file that cannot be sent is already shown as text.
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
