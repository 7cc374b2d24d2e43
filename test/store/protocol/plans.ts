import { planAfterMaintenance } from '../../../src/domain/run/after-maintenance.ts';
import type { NextPlan } from '../../../src/domain/run/branch.ts';
import { planNext, type StepOutcome } from '../../../src/domain/run/next-step.ts';
import type { ToolPart } from '../../../src/domain/transcript/message.ts';
import type { ResponseWrite } from '../../../src/store/work/step-writes.ts';
import type { Act, Ending } from './acts.ts';

type Finish = Extract<Act, { act: 'finish' }>;

export const MODEL_ERROR = { code: 'overloaded', message: 'The model is overloaded.' } as const;

export const callPart = (index: number, state: ToolPart['state']): ToolPart => ({
  type: 'tool',
  toolCallId: `call_${index}`,
  toolName: 'look',
  input: {},
  state,
});

const ANSWERED = { kind: 'answered' } as const;
const FAILED = { kind: 'failed', error: MODEL_ERROR } as const;

/** The part of a step's outcome that each ending sets. */
const OUTCOMES: Readonly<
  Record<Ending, (finish: Finish) => Pick<StepOutcome, 'finishReason' | 'toolCalls' | 'result' | 'limit'>>
> = {
  answer: () => ({ finishReason: 'stop', toolCalls: 0, result: ANSWERED }),
  tools: () => ({ finishReason: 'tool-calls', toolCalls: 1, result: ANSWERED }),
  compact: () => ({ finishReason: 'tool-calls', toolCalls: 1, result: { ...ANSWERED, before: 'compaction' } }),
  retry: () => ({ finishReason: 'error', toolCalls: 0, result: { ...FAILED, retry: { delayMs: 0, attempt: 1 } } }),
  overflow: () => ({ finishReason: 'error', toolCalls: 0, result: { kind: 'repeat', after: 'compaction' } }),
  error: () => ({ finishReason: 'error', toolCalls: 0, result: FAILED }),
  limit: () => ({ finishReason: 'tool-calls', toolCalls: 1, limit: 'budget', result: ANSWERED }),
  abort: () => ({ finishReason: 'aborted', toolCalls: 0, result: ANSWERED }),
  ask: ({ hand, asked }) => ({
    finishReason: 'tool-calls',
    toolCalls: asked.length,
    result: {
      kind: 'asks',
      messageId: hand.openId ?? '',
      calls: asked.map((index) => ({ kind: 'approval', index, part: callPart(index, 'pending') })),
      waitMs: null,
    },
  }),
};

export function planOf(finish: Finish): NextPlan {
  const { runId, no } = finish.hand.job;
  return planNext({ runId, stepNo: no, stepsBefore: 0, maxSteps: 1_000, ...OUTCOMES[finish.ending](finish) });
}

export function planOfMaintenance({ hand, runKind }: Extract<Act, { act: 'finish-maintenance' }>): NextPlan {
  return planAfterMaintenance({ runId: hand.job.runId, runKind, stepNo: hand.job.no, goesOnWith: 'step' });
}

/** The response that commits with the end. Undefined: it is written already, or there is none. */
export function responseOf({ hand, ending, isWritten }: Finish): ResponseWrite | undefined {
  const messageId = hand.openId;
  if (messageId === null || isWritten) return undefined;
  const text = { type: 'text', text: ending } as const;
  if (ending === 'retry' || ending === 'overflow') {
    return { messageId, parts: [], error: MODEL_ERROR, superseded: true };
  }
  if (ending === 'error') return { messageId, parts: [], finishReason: 'error', error: MODEL_ERROR };
  const finishReason = ending === 'answer' ? 'stop' : ending === 'abort' ? 'aborted' : 'tool-calls';
  return { messageId, parts: [text], finishReason };
}

/** The response that is written instead after a cancel. */
export function keptOf({ hand, ending }: Finish): ResponseWrite | undefined {
  if (hand.openId === null || (ending !== 'retry' && ending !== 'overflow')) return undefined;
  return { messageId: hand.openId, parts: [{ type: 'text', text: 'kept' }], finishReason: 'aborted' };
}

export const stepsOf = ({ hand, ending }: Finish): 0 | 1 => (hand.openId === null || ending === 'overflow' ? 0 : 1);
