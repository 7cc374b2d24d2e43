import { rawId, type Snapshot } from './snapshot.ts';
import { EFFECTLESS } from './tools.ts';
import { answersIn } from './transcript.ts';

/**
 * A cancel of a run that was accepted. `spoken`: the answers, by number, that the model was giving in the run's session
 * at that moment. `wentOnMs` is the sum of the pauses before an answer's later pieces, to which a busy machine adds
 * nothing.
 */
export type AcceptedCancel = Readonly<{
  runId: string;
  spoken: readonly Readonly<{ answer: number; wentOnMs: number }>[];
}>;

/** Ten heartbeats of the suite: even on a busy machine, a worker that has not heard of a cancel by then never does. */
const UNHEARD_AFTER_MS = 3_000;

/**
 * Work that went on in spite of a cancel: an answer of the run that had long to go and was kept whole, and a call that
 * began after the cancel, by the database's clock. The start of a call is committed under the lock that a cancel also
 * takes; a call without an effect begins without that lock, and is stopped when its worker hears of the cancel.
 */
export function checkCancels({ messages }: Snapshot, cancels: readonly AcceptedCancel[]): string[] {
  const whole = new Map(
    messages
      .filter(({ superseded, finishReason }) => !superseded && WHOLE.includes(finishReason))
      .flatMap((message) => answersIn(message).map((answer) => [answer, message.runId] as const)),
  );
  const unheard = cancels.flatMap(({ runId, spoken }) =>
    spoken
      .filter(({ answer, wentOnMs }) => wentOnMs >= UNHEARD_AFTER_MS && whole.get(answer) === rawId(runId))
      .map(({ answer, wentOnMs }) => `answer ${answer} of ${rawId(runId)} went on for ${wentOnMs} ms to its end`),
  );
  const begun = messages.flatMap(({ runId, parts }) =>
    parts
      .filter(({ content, startedAfterCancel }) => startedAfterCancel === true && hasEffect(content.toolName))
      .map(({ content }) => `${content.input?.token ?? ''} of ${runId} began after the cancel`),
  );
  return [...unheard, ...begun];
}

const WHOLE: readonly (string | null)[] = ['stop', 'tool-calls'];

const hasEffect = (toolName = ''): boolean => !EFFECTLESS.includes(toolName);
