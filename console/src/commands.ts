import { useEffect, useRef } from 'react';

/** Something that the palette can do. */
export type Command = Readonly<{
  group: string;
  words: string;
  keys?: string | undefined;
  /** Why it cannot be done now. */
  refused?: string | undefined;
  run: () => void;
}>;

/** The group of what can be done on the page that is shown, with what is chosen there. */
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
