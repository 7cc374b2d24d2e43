/**
 * Why a replay could not go on. `busy_database`: other runs are active there. `run_ended`: a run ended where the
 * recording goes on, or otherwise than completed. `stalled`: a run made no progress. `refused`: the service answered
 * with an error. `no_user_message`: the recording does not begin with one.
 */
export type ReplayErrorCode = 'busy_database' | 'no_user_message' | 'refused' | 'run_ended' | 'stalled';

/** A replay cannot go on; `code` says why. */
export class ReplayError extends Error {
  override readonly name = 'ReplayError';
  readonly code: ReplayErrorCode;

  constructor(code: ReplayErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
