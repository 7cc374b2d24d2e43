import { isDeepStrictEqual } from 'node:util';
import type { ToolPart } from '../domain/transcript/message.ts';
import { type Case, type CaseStep, type CaseUser, stepsOf } from './case-file.ts';
import type { Difference } from './differences.ts';

/**
 * Plays a case in one session: keeps its place in the case, and gives the next answer of the model and of the tools.
 */
export type Player = Readonly<{
  /**
   * The recorded answer to the next request, or `live`: the model itself answers. Null: the case has no more. The
   * player first sends the messages that the step after it takes up.
   */
  answer: () => Promise<CaseStep | 'live' | null>;
  /** The next recorded summary; null: the case has none. */
  summary: () => string | null;
  /** The recorded call of the current step; null: the case has none. Each call is given once, unless `keeps` is set. */
  call: (wanted: WantedCall, keeps?: boolean) => ToolPart | null;
  /** Number of requests that were answered. */
  answeredCount: () => number;
  /** Whether the model itself answers by now. */
  isLive: () => boolean;
  /** Differences from the record that were seen during the play. */
  differences: readonly Difference[];
}>;

type WantedCall = Readonly<{ toolName: string; toolCallId?: string; input?: unknown }>;

/** Actions that a player may take in its session before it gives an answer. */
export type Stage = Readonly<{
  send: (message: CaseUser) => Promise<void>;
  switchModel: (model: string) => Promise<void>;
}>;

/** The model that answers from a step on. Steps are counted over the whole case, from 1. */
export type Fork = Readonly<{ from: number; model: string }>;

export function createPlayer(recorded: Case, stage: Stage, fork: Fork | null = null): Player {
  const steps = stepsOf(recorded);
  const summaries = recorded.entries.flatMap((entry) => (entry.type === 'summary' ? [entry.text] : []));
  const usedParts = new Set<ToolPart>();
  const differences: Difference[] = [];
  let answered = 0;
  const isLiveAt = (no: number): boolean => fork !== null && no >= fork.from;
  const modelAt = (no: number): string | undefined => (isLiveAt(no) ? fork?.model : steps[no - 1]?.model);
  return {
    async answer() {
      const step = steps[answered];
      answered += 1;
      if (step === undefined) {
        if (isLiveAt(answered)) return 'live';
        differences.push({ step: answered, what: 'model', recorded: 'not asked again', now: 'asked once more' });
        return null;
      }
      const next = steps[answered];
      const during = next === undefined ? null : takenUpBetween(recorded, step, next);
      if (during !== null) await stage.send(during);
      const model = modelAt(answered + 1);
      if (model !== undefined && model !== modelAt(answered)) await stage.switchModel(model);
      return isLiveAt(answered) ? 'live' : step;
    },
    summary: () => summaries.shift() ?? null,
    call(wanted, keeps = false) {
      // A live model makes its calls in its own order, with ids of its own.
      const isLive = isLiveAt(answered);
      const parts = isLive ? steps.flatMap((step) => step.parts) : (steps[answered - 1]?.parts ?? []);
      const comparison = isLive ? { toolName: wanted.toolName, input: wanted.input } : wanted;
      const found = parts.find((part) => part.type === 'tool' && !usedParts.has(part) && isMeant(part, comparison));
      if (found?.type !== 'tool') return null;
      if (!keeps) usedParts.add(found);
      return found;
    },
    answeredCount: () => answered,
    isLive: () => isLiveAt(answered),
    differences,
  };
}

function isMeant(part: ToolPart, { toolName, toolCallId, input }: WantedCall): boolean {
  if (part.toolName !== toolName || (toolCallId !== undefined && part.toolCallId !== toolCallId)) return false;
  return input === undefined || isDeepStrictEqual(part.input, input);
}

/** The messages that came while a run was at work, and that its next step took up. */
function takenUpBetween({ entries }: Case, step: CaseStep, next: CaseStep): CaseUser | null {
  if (step.run !== next.run) return null;
  const between = entries.slice(entries.indexOf(step) + 1, entries.indexOf(next));
  return between.find((entry) => entry.type === 'user') ?? null;
}
