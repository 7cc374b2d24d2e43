/**
 * Why a replay could not continue.
 * - `busy_database`: other runs are active there.
 * - `run_ended`: a run ended before the recording, or did not complete.
 * - `stalled`: a run made no progress.
 * - `refused`: the service answered with an error.
 * - `no_user_message`: the recording does not begin with a user message.
 */
export type ReplayErrorCode = 'busy_database' | 'no_user_message' | 'refused' | 'run_ended' | 'stalled';

export class ReplayError extends Error {
  override readonly name = 'ReplayError';
  readonly code: ReplayErrorCode;

  constructor(code: ReplayErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
