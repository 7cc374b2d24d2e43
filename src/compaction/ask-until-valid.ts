import {
  FAULT_MESSAGES,
  isWorthReminding,
  type SummaryAnswer,
  type SummaryFault,
} from '../domain/context/compaction/summary-validation.ts';
import { type ErrorRecord, toErrorRecord } from '../domain/errors.ts';
import { REMEDIES } from '../domain/model/retry-policy.ts';
import type { ModelFailure } from '../model/model-error.ts';
import { askModel, type ModelAnswer } from './ask-model.ts';
import type { ModelRequest } from './model-request.ts';
import type { Unanswered } from './strategy.ts';
import { type CompactionWork, countReal } from './work.ts';

export type Asked = Readonly<
  | { kind: 'valid'; text: string }
  /** No usable answer. Another way of asking may bring one. */
  | ({ kind: 'faulty' } & Unanswered)
  /** The request was too large. A smaller one may do. */
  | { kind: 'too_large'; error: ErrorRecord }
  /** No other request would be answered now. */
  | ({ kind: 'over' } & Unanswered)
>;

/**
 * Asks, and asks again: with a reminder of the fault, or unchanged if the connection broke. A rate limit ends it,
 * because waiting would hold the claim; the provider is paused for all sessions, and the run goes on without a summary
 * or waits as a delayed job.
 * @param requestOf null: this way of asking is not open
 * @param attempts at most
 */
export async function askUntilValid(
  work: CompactionWork,
  requestOf: (reminder: SummaryFault | null) => Promise<ModelRequest | null> | ModelRequest | null,
  validate: (answer: SummaryAnswer) => SummaryFault | null,
  attempts = 2,
): Promise<Asked | null> {
  let reminder: SummaryFault | null = null;
  for (let left = attempts; ; left--) {
    const request = await requestOf(reminder);
    if (request === null) return null;
    const judged = judge(work, await askModel(work, request), validate);
    if (judged.kind !== 'again') return judged;
    const { kind: _, reminder: next, ...unanswered } = judged;
    if (left <= 1) return { kind: 'faulty', ...unanswered };
    reminder = next;
  }
}

type Again = Readonly<{ kind: 'again'; reminder: SummaryFault | null } & Unanswered>;

function judge(
  work: CompactionWork,
  answer: ModelAnswer,
  validate: (answer: SummaryAnswer) => SummaryFault | null,
): Asked | Again {
  if (answer.kind === 'stopped') return { kind: 'over', error: STOPPED[answer.reason] };
  if (answer.kind === 'refused') return { kind: 'over', error: answer.error };
  if (answer.kind === 'failed') return judgeFailure(answer.failure);
  // The provider's count comes first: the estimate could reject a summary that kept its limit.
  const tokens = answer.outputTokens > 0 ? answer.outputTokens : countReal(work)(answer.text);
  const fault = validate({ ...answer, tokens });
  if (fault === null) return { kind: 'valid', text: answer.text };
  const error: ErrorRecord = { code: 'summary_invalid', message: `The compaction failed: ${FAULT_MESSAGES[fault]}.` };
  return isWorthReminding(fault) ? { kind: 'again', reminder: fault, error } : { kind: 'faulty', error };
}

function judgeFailure(failure: ModelFailure): Asked | Again {
  const error = toErrorRecord(failure.error);
  const remedy = REMEDIES[failure.class];
  if (remedy === 'compact' || remedy === 'strip_media' || remedy === 'shrink_output')
    return { kind: 'too_large', error };
  const failedCall = { class: failure.class, retryAfterMs: failure.retryAfterMs };
  // The next way of asking is a data request, which has no tools.
  if (remedy === 'drop_tools') return { kind: 'faulty', error };
  const mayPass = failure.class === 'transport' || failure.class === 'overloaded';
  return mayPass ? { kind: 'again', reminder: null, error, failedCall } : { kind: 'over', error, failedCall };
}

const STOPPED: Readonly<Record<'stopped' | 'time_up' | 'calls_used_up', ErrorRecord>> = {
  stopped: { code: 'conflict', message: 'The compaction was stopped.' },
  time_up: { code: 'timeout', message: 'The compaction took too long.' },
  calls_used_up: { code: 'limit_exceeded', message: 'The compaction used up its model calls.' },
};
