import type { RequiredAction } from '../../domain/transcript/required-action.ts';

/** What the client is asked about calls: the ids of the questions, by the ids of the calls. */
export type Approvals = ReadonlyMap<string, string>;

/**
 * The questions that a page is asked with a dialogue of its own; what the client is to run itself is none. A page sends
 * its answers again with every later message, so each question has an id of its own: a call is to be approved once, and
 * after that may be of unknown outcome any number of times.
 * @param seq the event with which the run began to wait
 */
export function approvalsOf(actions: readonly Pick<RequiredAction, 'id' | 'kind'>[], seq: number): Approvals {
  return new Map(
    actions.flatMap(({ id, kind }) => (kind === 'output' ? [] : [[id, kind === 'approval' ? id : `${id}.${seq}`]])),
  );
}
