import { BatonError } from './baton-error.ts';
import type { Run, RunOutput } from './contract.ts';
import type { Json } from './json.ts';

/** The outcome of a run. `text` is empty if the run has no whole answer: look at `run.status`. */
export type RunResult<Output = Json> = Readonly<{
  text: string;
  files: RunOutput['files'];
  /**
   * The result, if the run was asked for one that fits a schema. Null: the run was not asked for one, or has not
   * reached it.
   */
  output: Output | null;
  run: Run;
}>;

/**
 * @param run read by itself, not from a list. The service has checked its result, so `Output` is trusted
 * @throws BatonError with the code of the run's error if it has failed
 */
export function toResult<Output>(run: Run): RunResult<Output> {
  const { status, error, output } = run;
  if (status === 'failed' && error !== null) throw new BatonError(error.code, error.message, { status: null });
  const value = (output?.value ?? null) as Output | null;
  return { text: output?.text ?? '', files: output?.files ?? [], output: value, run };
}
