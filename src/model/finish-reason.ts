import { FINISH_REASONS, type FinishReason } from '../domain/transcript/message.ts';

/**
 * The SDK ends a model call also where the provider reported an error in mid-stream (`error`), and where the stream
 * just stopped (`interrupted`). Such an answer is not whole, whatever came of it.
 */
export function brokeOff(finishReason: string): boolean {
  return finishReason === 'error' || finishReason === 'interrupted';
}

/** Why a model ended its answer; what is not known is `other`. */
export function toFinishReason(reason: string): FinishReason {
  return FINISH_REASONS.find((known) => known === reason) ?? 'other';
}
