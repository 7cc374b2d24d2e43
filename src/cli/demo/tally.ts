import type { StreamEvent } from '../../client/session-events.ts';

/** The end of a run, as its event describes it. */
export type Ending = Readonly<{
  runId: string;
  status: 'completed' | 'failed' | 'cancelled' | 'incomplete';
  reason?: string;
}>;

/** Counts of the events so far. */
export type Tally = Readonly<{
  steps: number;
  toolCalls: number;
  events: number;
  inputTokens: number;
  cacheReadTokens: number;
  outputTokens: number;
  /** Messages in the conversation, with the runs that took them up. */
  takenUp: readonly Readonly<{ messageId: string; runId: string | null }>[];
  ended: Ending | null;
}>;

export const NOTHING_YET: Tally = {
  steps: 0,
  toolCalls: 0,
  events: 0,
  inputTokens: 0,
  cacheReadTokens: 0,
  outputTokens: 0,
  takenUp: [],
  ended: null,
};

export function tallyEvent(before: Tally, event: StreamEvent): Tally {
  if (!('seq' in event)) return before;
  const { runId = null } = event;
  const tally = { ...before, events: before.events + 1 };
  switch (event.type) {
    case 'step:completed':
      return { ...tally, steps: tally.steps + 1 };
    case 'llm:tool-call':
      return { ...tally, toolCalls: tally.toolCalls + 1 };
    case 'usage:updated': {
      const { inputTokens, cacheReadTokens, outputTokens } = event.data.usage;
      return {
        ...tally,
        inputTokens: tally.inputTokens + inputTokens,
        cacheReadTokens: tally.cacheReadTokens + cacheReadTokens,
        outputTokens: tally.outputTokens + outputTokens,
      };
    }
    case 'message:dequeued': {
      const dequeued = event.data.ids.map((messageId) => ({ messageId, runId }));
      return { ...tally, takenUp: [...tally.takenUp, ...dequeued] };
    }
    case 'run:completed':
      return { ...tally, ended: { runId: event.data.runId, status: 'completed' } };
    case 'run:incomplete':
      return { ...tally, ended: { runId: event.data.runId, status: 'incomplete', reason: event.data.reason } };
    case 'run:cancelled':
      return { ...tally, ended: { runId: event.data.runId, status: 'cancelled', reason: 'it was cancelled' } };
    case 'run:failed': {
      const { code, message } = event.data.error;
      return { ...tally, ended: { runId: event.data.runId, status: 'failed', reason: `${code}: ${message}` } };
    }
    default:
      return tally;
  }
}

/**
 * Whether a run has ended and no other follows. A message that came too late for its run starts another one; after a
 * failure or a cancel it stays parked.
 * @param sentId the message that was sent while the agent worked, or null
 */
export function isOver({ ended, takenUp }: Tally, sentId: string | null): boolean {
  if (ended === null) return false;
  if (sentId === null || ended.status === 'failed' || ended.status === 'cancelled') return true;
  return takenUp.some(({ messageId, runId }) => messageId === sentId && runId === ended.runId);
}
