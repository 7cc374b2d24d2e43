import type { RequiredAction } from '../../domain/transcript/required-action.ts';

/** The questions that the client is asked: ids of questions by ids of calls. */
export type Approvals = ReadonlyMap<string, string>;

/**
 * The questions for a page's own dialogue. Calls that the client runs itself are left out. A page sends its answers
 * again with every later message, so each question has its own id: a call is approved once, but its outcome may be
 * unknown any number of times.
 * @param seq the event with which the run began to wait
 */
export function approvalsOf(actions: readonly Pick<RequiredAction, 'id' | 'kind'>[], seq: number): Approvals {
  return new Map(
    actions.flatMap(({ id, kind }) => (kind === 'output' ? [] : [[id, kind === 'approval' ? id : `${id}.${seq}`]])),
  );
}
