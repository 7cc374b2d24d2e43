/** Exit codes of commands. After Ctrl-C it is 130, as for any program. */
export const EXIT = {
  done: 0,
  /** The service refused, or the run did not complete. */
  failed: 1,
  wrongArguments: 2,
  /** No service answers at the URL. */
  unreachable: 3,
  /** The run waits for an answer. */
  requiresAction: 4,
} as const;

/** An error in the command line. The message says which. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
