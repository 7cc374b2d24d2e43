import type { CallQuestion } from '../transcript/call-question.ts';
import type { FinishReason, Json, Part } from '../transcript/message.ts';
import {
  ACTION_KINDS,
  type ActionKind,
  type CallAnswer,
  type CallRequiringAction,
  isOutput,
  type OutputAnswer,
  type PlacedCall,
} from '../transcript/required-action.ts';
import { isSettledCall } from '../transcript/tool-call.ts';
import type { Usage } from '../usage.ts';

/** A step that another worker began, or whose calls were answered after a wait. */
export type InterruptedStep = Readonly<{
  messageId: string;
  /** Null: the response is not whole, and the model must not see any of it. */
  finishReason: FinishReason | null;
  usage: Usage | null;
  parts: readonly Part[];
  /** Answers to its calls, by part index. */
  answers: ReadonlyMap<number, CallAnswer>;
  /** What its calls have begun outside of the worker, which goes on without it, by part index. */
  outsideWork: ReadonlyMap<number, Json>;
  /** What its tools have asked for, by part index. */
  questions: ReadonlyMap<number, CallQuestion>;
  /** The step waited for answers. It was counted and paid for when the wait began. */
  isPaid: boolean;
}>;

/** The traits of a tool by the current tool set. A tool that is gone has none. */
export type ToolTraits = (toolName: string) => Readonly<{
  idempotent: boolean;
  resumes?: boolean;
  isClientSide?: boolean;
  isChild?: boolean;
  asksWhenUnknown?: boolean;
}>;

export type GivenCall = PlacedCall & Readonly<{ answer: OutputAnswer }>;

export type SettlementPlan =
  /** The response broke off before any tool could start: drop it and ask the model again. */
  | Readonly<{ kind: 'supersede' }>
  /** The response is whole: bring every call to an outcome and finish the step without a second model call. */
  | Readonly<{
      kind: 'finish';
      /** Calls whose worker died while they ran. That their outcome is unknown is recorded first. */
      markUnknown: readonly PlacedCall[];
      /**
       * Calls to run now: never started, approved, answered where the tool asked, or of unknown outcome and repeatable
       * (same call key) or to be resumed.
       */
      run: readonly PlacedCall[];
      /** Calls with an output from the client. */
      give: readonly GivenCall[];
      /** Calls that may have taken effect and must not be repeated: reported to the model. */
      report: readonly PlacedCall[];
      /** Calls that never started and must not: their response was cut off. */
      refuse: readonly PlacedCall[];
      /** Calls that require an action first. */
      ask: readonly CallRequiringAction[];
    }>;

/** The finish reasons of a response whose calls are run. Of any other one a call may be cut off. */
const CALLING_FINISH_REASONS: readonly FinishReason[] = ['stop', 'tool-calls'];

type Treatment = 'run' | 'give' | 'report' | 'refuse' | ActionKind;
type Judged = Pick<InterruptedStep, 'finishReason' | 'parts' | 'answers' | 'outsideWork' | 'questions'>;

/**
 * Plans the recovery of an interrupted step. A call with an outcome stays as it is, none runs twice unless it is
 * repeatable, and none runs without an approval that it needs.
 * @param toApprove the calls that need an approval, by part index
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
    ask: requiring(open, leftover.questions),
  };
}

/** The calls of a whole response that require an action before they run. */
export function planAsks(
  response: Pick<InterruptedStep, 'finishReason' | 'parts'>,
  traits: ToolTraits,
  toApprove: ReadonlySet<number>,
): CallRequiringAction[] {
  return requiring(openCalls({ ...response, ...NOTHING_KNOWN }, traits, toApprove), NOTHING_KNOWN.questions);
}

/**
 * The calls of a whole response that start as soon as it is stored, by part index. The others wait for a free lane or
 * an action, or are not run.
 * @param lanes how many calls run at once; calls take them in their order
 */
export function planStarts(
  response: Pick<InterruptedStep, 'finishReason' | 'parts'>,
  traits: ToolTraits,
  toApprove: ReadonlySet<number>,
  lanes: number,
): number[] {
  const open = openCalls({ ...response, ...NOTHING_KNOWN }, traits, toApprove);
  return open.slice(0, lanes).flatMap(([{ index }, treatment]) => (treatment === 'run' ? [index] : []));
}

/** The calls of a whole response that run now, once it is stored: those that start at once, and then the others. */
export function planRuns(
  response: Pick<InterruptedStep, 'finishReason' | 'parts'>,
  requiring: readonly CallRequiringAction[],
): PlacedCall[] {
  if (!areCallsRun(response)) return [];
  const requires = new Set(requiring.map(({ index }) => index));
  return response.parts.flatMap((part, index) =>
    part.type === 'tool' && part.state === 'pending' && part.providerExecuted !== true && !requires.has(index)
      ? [{ index, part }]
      : [],
  );
}

const NOTHING_KNOWN = { answers: new Map(), outsideWork: new Map(), questions: new Map() } as const;

type Open = readonly (readonly [PlacedCall, Treatment])[];

function openCalls(judged: Judged, traits: ToolTraits, toApprove: ReadonlySet<number>): Open {
  return judged.parts.flatMap(
    (part, index): Open =>
      part.type === 'tool' && !isSettledCall(part.state)
        ? [[{ index, part }, treatmentOf({ index, part }, judged, traits, toApprove)]]
        : [],
  );
}

function requiring(open: Open, questions: Judged['questions']): CallRequiringAction[] {
  return open.flatMap(([call, treatment]): CallRequiringAction[] => {
    if (treatment === 'input') return [{ ...call, kind: treatment, question: questions.get(call.index) ?? null }];
    return isAction(treatment) ? [{ ...call, kind: treatment }] : [];
  });
}

const isAction = (treatment: Treatment): treatment is ActionKind =>
  (ACTION_KINDS as readonly Treatment[]).includes(treatment);

function treatmentOf(call: PlacedCall, judged: Judged, traits: ToolTraits, toApprove: ReadonlySet<number>): Treatment {
  const { index, part } = call;
  if (part.state === 'awaiting_approval') return 'approval';
  if (part.state === 'awaiting_output') return awaitedOf(call, judged, traits);
  const answer = judged.answers.get(index);
  if (part.state === 'pending') {
    if (answer === undefined) return areCallsRun(judged) ? beginningOf(call, traits, toApprove) : 'refuse';
    return judged.questions.has(index) ? 'run' : treatmentBy(answer);
  }
  const { idempotent, asksWhenUnknown } = traits(part.toolName);
  if (idempotent || mayResume(call, judged, traits)) return 'run';
  // An answer holds until its call has been started again.
  if (part.state === 'unknown' && answer !== undefined) return treatmentBy(answer);
  return asksWhenUnknown === true ? 'unknown_outcome' : 'report';
}

function awaitedOf({ index, part }: PlacedCall, { questions }: Judged, traits: ToolTraits): Treatment {
  if (traits(part.toolName).isChild === true) return 'child';
  return questions.has(index) ? 'input' : 'output';
}

/** How a call begins that has not begun. */
function beginningOf({ index, part }: PlacedCall, traits: ToolTraits, toApprove: ReadonlySet<number>): Treatment {
  const { isChild, isClientSide } = traits(part.toolName);
  if (isChild === true) return 'child';
  if (isClientSide === true) return 'output';
  return toApprove.has(index) ? 'approval' : 'run';
}

/** It asks for the work that it has begun elsewhere, and begins nothing. */
const mayResume = ({ index, part }: PlacedCall, { outsideWork }: Judged, traits: ToolTraits): boolean =>
  traits(part.toolName).resumes === true && outsideWork.has(index);

const treatmentBy = (answer: CallAnswer): Treatment => (isOutput(answer) ? 'give' : 'run');

const areCallsRun = ({ finishReason }: Pick<Judged, 'finishReason'>): boolean =>
  finishReason !== null && CALLING_FINISH_REASONS.includes(finishReason);

/** The model reads it of a tool that did not stop after its abort. */
export const GIVEN_UP =
  'The tool did not stop when its time was up or the run was cancelled. It may still be running: its outcome is unknown.';

/** The model reads it in place of the result of a call that was cancelled before it started. */
export const CANCELLED_BEFORE_START = 'Cancelled before it started.';

/** The model reads it of a call in a final answer, which runs none. */
export const NOT_RUN_AT_LIMIT = 'Not run: the run had reached a limit, and no tool could be called any more.';

/** The model reads it of the calls of a response that was cut off. */
export const NOT_RUN = 'Not run: the response was cut off. Call it again if it is still needed.';
