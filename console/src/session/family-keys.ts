import type { ListedSession, Run, StepRow } from '@baton-run/server/client';
import { useNavigate } from '@tanstack/react-router';
import { ACTIONS, useCommands } from '../commands.ts';
import { useKeys } from '../keys.ts';
import { notify } from '../notices.ts';
import { type ChildrenOfCalls, childrenOfRun, firstToOpen } from './children.ts';
import type { SessionSearch } from './search.ts';
import type { Row } from './step-rows.ts';

/** The session that gave a task. `search` names the step that gave it, if that is known. */
export type Origin = Readonly<{ sessionId: string; search: SessionSearch }>;

/**
 * The step of another session that gave this session its task: the parent of the chosen run, else of the newest run
 * that has one. Null: no other session gave it a task.
 */
export function originOf(
  { parentSessionId }: ListedSession,
  rows: readonly Row[],
  runId: string | undefined,
): Origin | null {
  if (parentSessionId === null) return null;
  const given = rows.filter(({ run }) => run.parent?.sessionId === parentSessionId);
  const { run } = given.find((row) => row.run.id === runId) ?? given.at(-1) ?? {};
  const search = run?.parent == null ? {} : { run: run.parent.runId, step: run.parent.step, tab: 'tools' as const };
  return { sessionId: parentSessionId, search };
}

/**
 * Binds `d` to a child of the chosen step, else of the newest run, and `u` to the parent's step. The palette offers
 * both.
 */
export function useFamilyKeys(
  origin: Origin | null,
  children: ChildrenOfCalls,
  { chosen, newest }: Readonly<{ chosen: StepRow | undefined; newest: Run | undefined }>,
): void {
  const navigate = useNavigate();
  const go = ({ sessionId, search }: Origin): void =>
    void navigate({ to: '/sessions/$sessionId', params: { sessionId }, search });
  const ofStep = chosen?.tools.flatMap(({ id }) => children.get(id) ?? []) ?? [];
  const below = ofStep.length > 0 || newest === undefined ? ofStep : childrenOfRun(children, newest.id);
  const child = firstToOpen(below);
  const actions = [
    {
      keys: 'd',
      words: 'Go down to the session of a task that was given to another agent',
      refused: child?.sessionId == null ? 'No task of it has begun' : undefined,
      run: () => child?.sessionId != null && go({ sessionId: child.sessionId, search: {} }),
    },
    {
      keys: 'u',
      words: 'Go up to the step that gave this task',
      refused: origin === null ? 'No other session gave this one its task' : undefined,
      run: () => origin !== null && go(origin),
    },
  ];
  useCommands(actions.map((action) => ({ group: ACTIONS, ...action })));
  useKeys(
    'Session',
    Object.fromEntries(
      actions.map(({ keys, words, refused, run }) => [
        keys,
        [words, () => (refused === undefined ? run() : notify(refused, 'failed'))],
      ]),
    ),
  );
}
