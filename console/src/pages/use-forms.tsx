import type { ReactNode } from 'react';
import { ACTIONS, useCommands } from '../commands.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { ActionButton } from '../ui/action-button.tsx';

type Asked = Readonly<{
  /** The word for the thing that the form makes, such as `schedule`. */
  noun: string;
  /** The name of the unfolded thing; undefined: none is unfolded. */
  opened: string | undefined;
  create: () => void;
  edit: () => void;
}>;

/**
 * Binds the forms of a page to `n` and `e`, and offers them in the palette. A key that may only read gets neither.
 * @returns the button that opens an empty form, and a function that opens the form of the unfolded thing
 */
export function useForms({ noun, opened, create, edit }: Asked): Readonly<{
  create: ReactNode;
  edit: (() => void) | undefined;
}> {
  const mayWrite = useRefusal('write') === undefined;
  const mayEdit = mayWrite && opened !== undefined;
  useKeys('List', {
    ...(mayWrite && { n: [`New ${noun}`, create] }),
    ...(mayEdit && { e: [`Change the open ${noun}`, edit] }),
  });
  useCommands([
    ...(mayWrite ? [{ group: ACTIONS, words: `New ${noun}`, keys: 'n', run: create }] : []),
    ...(mayEdit ? [{ group: ACTIONS, words: `Change ${opened}`, keys: 'e', run: edit }] : []),
  ]);
  if (!mayWrite) return { create: null, edit: undefined };
  const button = (
    <span className="ml-auto">
      <ActionButton run={create} keys="n">
        New {noun}
      </ActionButton>
    </span>
  );
  return { create: button, edit };
}
