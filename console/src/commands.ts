import { useEffect, useRef } from 'react';

/** Something that the palette can do. */
export type Command = Readonly<{
  group: string;
  words: string;
  keys?: string | undefined;
  /** The reason why the command cannot run now. */
  refused?: string | undefined;
  run: () => void;
}>;

/** The group of the commands that the shown page offers for itself and for its chosen row. */
export const ACTIONS = 'Action';

const sources = new Set<() => readonly Command[]>();

/** The commands of the pages that are shown. */
export const currentCommands = (): readonly Command[] => [...sources].flatMap((source) => source());

/** Offers commands in the palette while the component is shown. */
export function useCommands(commands: readonly Command[]): void {
  const current = useRef(commands);
  current.current = commands;
  useEffect(() => {
    const source = (): readonly Command[] => current.current;
    sources.add(source);
    return () => void sources.delete(source);
  }, []);
}
