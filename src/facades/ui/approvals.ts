import type { OpenAction } from '../../store/lists/open-question.ts';

/** The questions that the client is asked: ids of questions by ids of calls. */
export type Approvals = ReadonlyMap<string, string>;

/**
 * The questions for a page's own dialogue. Calls that the client runs itself are left out. A page sends its answers
 * again with every later message, so each question has its own id: a call is approved once, but its outcome may be
 * unknown any number of times.
 */
export function approvalsOf(actions: readonly Pick<OpenAction, 'id' | 'kind' | 'askedSeq'>[]): Approvals {
  return new Map(
    actions.flatMap(({ id, kind, askedSeq }) =>
      kind === 'output' || kind === 'input' ? [] : [[id, kind === 'approval' ? id : `${id}.${askedSeq}`]],
    ),
  );
}
