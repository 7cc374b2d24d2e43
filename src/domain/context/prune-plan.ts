import type { PartMarks, ToolPart, ViewMessage } from '../message.ts';
import { fileForModel } from '../model-files.ts';
import { isSettledCall } from '../tool-call.ts';
import { estimateMessage, estimateToolCall, estimateToolResult, totalOf } from './message-tokens.ts';
import { outputRef } from './output-ref.ts';
import type { ContextPolicy } from './policy.ts';
import { prunedCall, shownParts } from './shown-parts.ts';
import type { Thresholds } from './thresholds.ts';
import type { TokenCounter } from './tokens.ts';

/** A mark that the plan asks for. */
export type PlannedMark = PartMarks & Readonly<{ messageId: string; index: number; originalTokens: number }>;

type PruneThresholds = Pick<
  Thresholds,
  'pruneAtTokens' | 'pruneProtectTokens' | 'pruneProtectTurns' | 'pruneMinimumTokens' | 'compactAtTokens'
>;

export type PruneInput = Readonly<{
  view: readonly ViewMessage[];
  count: TokenCounter;
  /** Real tokens per estimated token: `ratioOf` of the session's calibration. */
  ratio: number;
  thresholds: PruneThresholds;
  policy: ContextPolicy['prune'];
  /** The measured tokens of the next request with this view. */
  usedTokens: number;
  /** Somebody asked for it: then it need not be due, nor worth its while. What is protected stays protected. */
  force?: boolean;
}>;

export type PrunePlan = Readonly<
  | { kind: 'nothing'; reason: 'disabled' | 'not_due' | 'nothing_prunable' | 'too_little' }
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

/**
 * Decides which old tool calls the view shows cleared from now on. Every prune breaks the provider's cached prefix, so
 * one clears all that may be cleared, and only where that frees the minimum: the next one needs as much again.
 *
 * - Due from `pruneAtTokens` on.
 * - Protected are the newest calls: as many as fit into `pruneProtectTokens`, of the last `pruneProtectTurns` user turns.
 *   A run can be one turn of hundreds of steps, and a turn can be tiny, so both limits hold. What a call weighs here is
 *   what a prune could clear of it: its output and the long texts of its input. Otherwise a session of file writes, with
 *   their short outputs, would protect everything.
 * - Never cleared: results that no model call has read yet; calls without an outcome; calls of protected tools; what the
 *   provider ran itself, whose results go back in a form of its own; the summary and whatever stands before it.
 * - Errors tell the model what not to try again, and are short: they go last, where without them the view would still
 *   have to be compacted. A compaction would take them too, and not leave an id to read them by.
 *
 * Idempotent: what is left after a prune gives no other one.
 */
export function planPrune(input: PruneInput): PrunePlan {
  const { thresholds, policy, usedTokens, force = false } = input;
  if (!policy.enabled && !force) return { kind: 'nothing', reason: 'disabled' };
  if (usedTokens < thresholds.pruneAtTokens && !force) return { kind: 'nothing', reason: 'not_due' };
  const prunable = findPrunable(input);
  const others = prunable.filter((candidate) => !candidate.isError);
  const needsErrors = usedTokens - savedBy(others) >= thresholds.compactAtTokens;
  const chosen = needsErrors ? prunable : others;
  if (chosen.length === 0) return { kind: 'nothing', reason: 'nothing_prunable' };
  const savedTokens = savedBy(chosen);
  if (savedTokens < thresholds.pruneMinimumTokens && !force) return { kind: 'nothing', reason: 'too_little' };
  return {
    kind: 'prune',
    marks: chosen.map(({ messageId, index, originalTokens }) => ({ messageId, index, pruned: true, originalTokens })),
    prunedCount: chosen.length,
    savedTokens,
    prunedTools: [...new Set(chosen.map((candidate) => candidate.toolName))].toSorted(),
  };
}

type Candidate = Readonly<{
  messageId: string;
  index: number;
  toolName: string;
  isError: boolean;
  /** Tokens, the ratio included. */
  originalTokens: number;
  savedTokens: number;
}>;

const savedBy = (candidates: readonly Candidate[]): number =>
  Math.floor(candidates.reduce((sum, candidate) => sum + candidate.savedTokens, 0));

/** What may be cleared, in the order of the view. */
function findPrunable(input: PruneInput): Candidate[] {
  const { view, thresholds, ratio } = input;
  const newestFirst: Candidate[] = [];
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
      else if (call.savedEstimate >= MIN_SAVED_TOKENS) newestFirst.push(toCandidate(message, call, ratio));
    }
  }
  return newestFirst.toReversed();
}

type Call = Readonly<{
  index: number;
  part: ToolPart;
  /** Estimated tokens: of the call with its result, of what a prune could clear of it, and of what that would save. */
  wholeEstimate: number;
  clearableEstimate: number;
  savedEstimate: number;
}>;

function callsOf(message: ViewMessage, { count, policy }: PruneInput): Call[] {
  if (message.role !== 'assistant' || !message.parts.some((part) => part.type === 'tool')) return [];
  const shown = shownParts(message);
  return message.parts.flatMap((part, index): Call[] => {
    const before = shown[index];
    if (part.type !== 'tool' || before?.type !== 'tool' || part.marks?.pruned === true) return [];
    if (!isSettledCall(part.state) || part.providerExecuted === true) return [];
    if (policy.protectedTools.includes(part.toolName)) return [];
    const after = prunedCall(before, outputRef(message.seq, index));
    const resultEstimate = estimateToolResult(before, count);
    const inputEstimate = estimateToolCall(before, count);
    const clearedInput = Math.max(0, inputEstimate - estimateToolCall(after, count));
    return [
      {
        index,
        part,
        wholeEstimate: inputEstimate + resultEstimate,
        clearableEstimate: resultEstimate + clearedInput,
        savedEstimate: resultEstimate - estimateToolResult(after, count) + clearedInput,
      },
    ];
  });
}

function toCandidate(
  { id }: ViewMessage,
  { index, part, wholeEstimate, savedEstimate }: Call,
  ratio: number,
): Candidate {
  return {
    messageId: id,
    index,
    toolName: part.toolName,
    isError: part.state !== 'completed',
    originalTokens: Math.ceil(ratio * wholeEstimate),
    savedTokens: ratio * savedEstimate,
  };
}

export type MediaStripPlan = Readonly<{ marks: readonly PlannedMark[]; strippedCount: number; savedTokens: number }>;

/**
 * Takes images and files out of the view, for a request that was refused for its bytes: those are no matter of tokens, 42
 * screenshots can be 15 % of a window and 34 MB. What the last user message brought stays if anything else can go, so
 * that the model sees what it is asked about; if nothing else can, it goes too. Oldest first. Idempotent once nothing is
 * left.
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

function filesOf(
  message: ViewMessage,
  { count, ratio }: Pick<PruneInput, 'count' | 'ratio'>,
): Readonly<{ mark: PlannedMark; savedTokens: number }>[] {
  if (message.role !== 'user') return [];
  return message.parts.flatMap((part, index) => {
    if (part.type !== 'file' || part.marks?.mediaStripped === true) return [];
    // What cannot be sent is a text already.
    if (fileForModel(part).type === 'text' && !part.url.startsWith('@blob:')) return [];
    const marked = { ...part, marks: { ...part.marks, mediaStripped: true as const } };
    const before = totalOf(estimateMessage({ ...message, parts: [part] }, count));
    const after = totalOf(estimateMessage({ ...message, parts: [marked] }, count));
    const originalTokens = Math.ceil(ratio * before);
    const mark: PlannedMark = { messageId: message.id, index, mediaStripped: true, originalTokens };
    return [{ mark, savedTokens: ratio * (before - after) }];
  });
}
