import { BatonError } from '../domain/errors.ts';
import type { Tool } from './tool.ts';

/** Looks tools up by their own name or by the name of the set they belong to. */
export type ToolCatalogue = (names: readonly string[]) => readonly Tool[];

/**
 * @param sets tools by the name of their set
 * @param builtIn tools that every agent with a tool has, whether it names them or not; no other tool takes their names
 * @returns a look-up that throws BatonError `config_invalid` for a name that nothing provides
 */
export function createToolCatalogue(
  sets: Readonly<Record<string, readonly Tool[]>>,
  builtIn: readonly Tool[] = [],
): ToolCatalogue {
  const byName = new Map<string, readonly Tool[]>(Object.entries(sets));
  for (const tool of builtIn) byName.set(tool.name, [tool]);
  for (const tool of Object.values(sets).flat()) if (!byName.has(tool.name)) byName.set(tool.name, [tool]);
  return (names) => {
    const found = names.flatMap((name) => {
      const tools = byName.get(name);
      if (tools === undefined) throw new BatonError('config_invalid', `there is no tool or tool set named ${name}`);
      return tools;
    });
    const all = found.length === 0 ? [] : [...found, ...builtIn];
    return [...new Map(all.map((tool) => [tool.name, tool])).values()];
  };
}
