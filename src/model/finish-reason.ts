import { FINISH_REASONS, type FinishReason } from '../domain/transcript/message.ts';

/** True: not a whole answer. The SDK ends such calls, too: `error` in mid-stream, `interrupted` without an end. */
export function brokeOff(finishReason: string): boolean {
  return finishReason === 'error' || finishReason === 'interrupted';
}

/** An unknown reason is `other`. */
export function toFinishReason(reason: string): FinishReason {
  return FINISH_REASONS.find((each) => each === reason) ?? 'other';
}
