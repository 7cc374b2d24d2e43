import type { FinishReason, Part } from '../transcript/message.ts';
import {
  type ActionKind,
  type CallAnswer,
  type CallRequiringAction,
  isOutput,
  type OutputAnswer,
  type PlacedCall,
} from '../transcript/required-action.ts';
import { isSettledCall } from '../transcript/tool-call.ts';
import type { Usage } from '../usage.ts';

/** What a worker finds of a step that another one began, or that somebody was asked about. */
export type InterruptedStep = Readonly<{
  messageId: string;
  /** Null while the response was not whole: nothing of it may be shown to the model. */
  finishReason: FinishReason | null;
  usage: Usage | null;
  parts: readonly Part[];
  /** What was said about its calls, by their index. */
  answers: ReadonlyMap<number, CallAnswer>;
  /** The step has waited for answers: it was counted and paid for when it began to. */
  isPaid: boolean;
}>;

/** What the tool set says about a tool; a tool that is gone is none of it. */
export type ToolTraits = (
  toolName: string,
) => Readonly<{ idempotent: boolean; isClientSide?: boolean; asksWhenUnknown?: boolean }>;

/** A call whose output a client gave. */
export type GivenCall = PlacedCall & Readonly<{ answer: OutputAnswer }>;

export type SettlementPlan =
  /** The response broke off before any tool could start: drop it, ask the model again. */
  | Readonly<{ kind: 'supersede' }>
  /** The response is whole: bring every call to an outcome, then finish the step without a second model call. */
  | Readonly<{
      kind: 'finish';
      /** Calls whose worker died while they ran: their outcome is unknown and is recorded as such first. */
      markUnknown: readonly PlacedCall[];
      /**
       * Calls to run now: never started, approved, or of unknown outcome and allowed to be repeated (same call key).
       */
      run: readonly PlacedCall[];
      /** Calls that have their output from the client. */
      give: readonly GivenCall[];
      /** Calls that may have happened and must not be repeated: reported to the model. */
      report: readonly PlacedCall[];
      /** Calls that never started and must not: the response that asks for them was cut off. */
      refuse: readonly PlacedCall[];
      /** Calls that somebody has to say something about first. */
      ask: readonly CallRequiringAction[];
    }>;

/** How a response ends whose calls are run; the SDK runs no others, so recovery must not either. */
const CALLING_FINISH_REASONS: readonly FinishReason[] = ['stop', 'tool-calls'];

type Treatment = 'run' | 'give' | 'report' | 'refuse' | ActionKind;
type Judged = Pick<InterruptedStep, 'finishReason' | 'parts' | 'answers'>;

/**
 * Decides what becomes of a step whose worker is gone, or whose calls were answered. No call with an outcome is
 * touched, none runs twice unless it may, none runs before it is approved where that is needed.
 * @param toApprove the calls that need somebody's approval, by their index
 */
export function planSettlement(
  leftover: InterruptedStep,
  traits: ToolTraits,
  toApprove: ReadonlySet<number> = new Set(),
): SettlementPlan {
  if (leftover.finishReason === null) return { kind: 'supersede' };
  const open = openCalls(leftover, traits, toApprove);
  const treated = (treatment: Treatment): PlacedCall[] =>
    open.flatMap(([call, each]) => (each === treatment ? [call] : []));
  return {
    kind: 'finish',
    markUnknown: open.flatMap(([call]) => (call.part.state === 'running' ? [call] : [])),
    run: treated('run'),
    give: treated('give').flatMap((call) => {
      const answer = leftover.answers.get(call.index);
      return answer !== undefined && isOutput(answer) ? [{ ...call, answer }] : [];
    }),
    report: treated('report'),
    refuse: treated('refuse'),
    ask: requiring(open),
  };
}

/** The calls of a whole response that are not run: somebody has to say something about each of them first. */
export function planAsks(
  response: Pick<InterruptedStep, 'finishReason' | 'parts'>,
  traits: ToolTraits,
  toApprove: ReadonlySet<number>,
): CallRequiringAction[] {
  return requiring(openCalls({ ...response, answers: new Map() }, traits, toApprove));
}

/**
 * The calls of a whole response that start as soon as it is stored, by their index. The rest waits for a free lane, for
 * somebody, or is not run.
 * @param lanes how many calls run at once; calls take them in their order
 */
export function planStarts(
  response: Pick<InterruptedStep, 'finishReason' | 'parts'>,
  traits: ToolTraits,
  toApprove: ReadonlySet<number>,
  lanes: number,
): number[] {
  const open = openCalls({ ...response, answers: new Map() }, traits, toApprove);
  return open.slice(0, lanes).flatMap(([{ index }, treatment]) => (treatment === 'run' ? [index] : []));
}

type Open = readonly (readonly [PlacedCall, Treatment])[];

function openCalls(judged: Judged, traits: ToolTraits, toApprove: ReadonlySet<number>): Open {
  return judged.parts.flatMap(
    (part, index): Open =>
      part.type === 'tool' && !isSettledCall(part.state)
        ? [[{ index, part }, treatmentOf({ index, part }, judged, traits, toApprove)]]
        : [],
  );
}

function requiring(open: Open): CallRequiringAction[] {
  return open.flatMap(([call, treatment]): CallRequiringAction[] =>
    treatment === 'approval' || treatment === 'output' || treatment === 'unknown_outcome'
      ? [{ ...call, kind: treatment }]
      : [],
  );
}

function treatmentOf(call: PlacedCall, judged: Judged, traits: ToolTraits, toApprove: ReadonlySet<number>): Treatment {
  const { state, toolName } = call.part;
  if (state === 'awaiting_approval') return 'approval';
  if (state === 'awaiting_output') return 'output';
  const answer = judged.answers.get(call.index);
  const { idempotent, isClientSide, asksWhenUnknown } = traits(toolName);
  if (state === 'pending') {
    if (answer !== undefined) return treatmentBy(answer);
    if (!areCallsRun(judged)) return 'refuse';
    if (isClientSide === true) return 'output';
    return toApprove.has(call.index) ? 'approval' : 'run';
  }
  if (idempotent) return 'run';
  // What was said of a call holds until that call has been started again.
  if (state === 'unknown' && answer !== undefined) return treatmentBy(answer);
  return asksWhenUnknown === true ? 'unknown_outcome' : 'report';
}

const treatmentBy = (answer: CallAnswer): Treatment => (isOutput(answer) ? 'give' : 'run');

const areCallsRun = ({ finishReason }: Judged): boolean =>
  finishReason !== null && CALLING_FINISH_REASONS.includes(finishReason);

/** What the model reads of a tool that did not stop when it was told to. */
export const GIVEN_UP =
  'The tool did not stop when its time was up or the run was cancelled. It may still be running: its outcome is unknown.';

/** What the model reads in place of the result of a call that was cancelled before it started. */
export const CANCELLED_BEFORE_START = 'Cancelled before it started.';

/** What the model reads of a call in a final answer, in which none may be made. */
export const NOT_RUN_AT_LIMIT = 'Not run: the run had reached a limit, and no tool could be called any more.';

/** What the model reads when its response was cut off and its calls were therefore not run. */
export const NOT_RUN = 'Not run: the response was cut off. Call it again if it is still needed.';
