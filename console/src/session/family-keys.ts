import { useNavigate } from '@tanstack/react-router';
import type { ListedSession, Run, StepRow } from 'baton/client';
import { ACTIONS, useCommands } from '../commands.ts';
import { useKeys } from '../keys.ts';
import { notify } from '../notices.ts';
import { type ChildrenOfCalls, childrenOfRun, firstToOpen } from './children.ts';

/** Binds `d` to a child of the chosen step, else of the newest run, and `u` to the parent; both stand in the palette. */
export function useFamilyKeys(
  { parentSessionId }: ListedSession,
  children: ChildrenOfCalls,
  { chosen, newest }: Readonly<{ chosen: StepRow | undefined; newest: Run | undefined }>,
): void {
  const navigate = useNavigate();
  const go = (sessionId: string): void =>
    void navigate({ to: '/sessions/$sessionId', params: { sessionId }, search: {} });
  const ofStep = chosen?.tools.flatMap(({ id }) => children.get(id) ?? []) ?? [];
  const below = ofStep.length > 0 || newest === undefined ? ofStep : childrenOfRun(children, newest.id);
  const child = firstToOpen(below);
  const actions = [
    {
      keys: 'd',
      words: 'Go down to the session of a task that was given to another agent',
      refused: child?.sessionId == null ? 'No task of it has begun' : undefined,
      run: () => child?.sessionId != null && go(child.sessionId),
    },
    {
      keys: 'u',
      words: 'Go up to the session that gave this task',
      refused: parentSessionId === null ? 'No other session gave this one its task' : undefined,
      run: () => parentSessionId !== null && go(parentSessionId),
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
