import type { FinishReason, Part, ToolPart } from './message.ts';
import { isSettledCall } from './tool-call.ts';
import type { Usage } from './usage.ts';

/** What a worker finds of a step that another one began. */
export type Leftover = Readonly<{
  messageId: string;
  /** Null while the response was not whole: nothing of it may be shown to the model. */
  finishReason: FinishReason | null;
  usage: Usage | null;
  parts: readonly Part[];
}>;

/** What the tool set says about a tool; a tool that is gone is neither. */
export type ToolTraits = (toolName: string) => Readonly<{ idempotent: boolean }>;

/** One call of a batch, where it stands in its message. */
export type PlacedCall = Readonly<{ index: number; part: ToolPart }>;

export type SettlementPlan =
  /** The response broke off before any tool could start: drop it, ask the model again. */
  | Readonly<{ kind: 'supersede' }>
  /** The response is whole: bring every call to an outcome, then finish the step without a second model call. */
  | Readonly<{
      kind: 'finish';
      /** Calls whose worker died while they ran: their outcome is unknown and is recorded as such first. */
      markUnknown: readonly PlacedCall[];
      /** Calls to run now: never started, or unknown and idempotent (same call key). */
      run: readonly PlacedCall[];
      /** Calls that may have happened and must not be repeated: reported to the model. */
      report: readonly PlacedCall[];
      /** Calls that never started and must not: the response that asks for them was cut off. */
      refuse: readonly PlacedCall[];
    }>;

/** How a response ends whose calls are run; the SDK runs no others, so recovery must not either. */
const CALLING_FINISH_REASONS: readonly FinishReason[] = ['stop', 'tool-calls'];

/** Decides what becomes of a step whose worker is gone. No call with an outcome is touched, none runs twice unless it may. */
export function planSettlement(leftover: Leftover, traits: ToolTraits): SettlementPlan {
  if (leftover.finishReason === null) return { kind: 'supersede' };
  const open = leftover.parts.flatMap((part, index): PlacedCall[] =>
    part.type === 'tool' && !isSettledCall(part.state) ? [{ index, part }] : [],
  );
  const mayRun = CALLING_FINISH_REASONS.includes(leftover.finishReason);
  const wasRunning = (call: PlacedCall): boolean => call.part.state === 'running' || call.part.state === 'unknown';
  const idempotent = (call: PlacedCall): boolean => traits(call.part.toolName).idempotent;
  return {
    kind: 'finish',
    markUnknown: open.filter((call) => call.part.state === 'running'),
    run: open.filter((call) => (call.part.state === 'pending' ? mayRun : wasRunning(call) && idempotent(call))),
    report: open.filter((call) => wasRunning(call) && !idempotent(call)),
    refuse: open.filter((call) => call.part.state === 'pending' && !mayRun),
  };
}

/** What the model reads in place of the result of a call whose outcome nobody knows. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: the worker died while it ran. It may or may not have taken effect. Verify before you repeat it.';

/** What the model reads of a tool that did not stop when it was told to. */
export const GIVEN_UP =
  'The tool did not stop when its time was up or the run was cancelled. It may still be running: its outcome is unknown.';

/** What the model reads in place of the result of a call that was cancelled before it started. */
export const CANCELLED_BEFORE_START = 'Cancelled before it started.';

/** What the model reads when its response was cut off and its calls were therefore not run. */
export const NOT_RUN = 'Not run: the response was cut off. Call it again if it is still needed.';
