import type { Agent } from './agent.ts';

/** All by which clients may ask for an agent: its name first. */
export const namesOf = ({ name, aliases = [] }: Pick<Agent, 'name' | 'aliases'>): readonly string[] => [
  name,
  ...aliases,
];

type NameProblem = Readonly<{ key: 'name' | `aliases.${number}`; message: string }>;

/** The first name or alias of an agent that another one has, or that it has twice. Null: none. */
export function nameProblem(agent: Pick<Agent, 'name' | 'aliases'>, taken: ReadonlySet<string>): NameProblem | null {
  const names = namesOf(agent);
  const at = names.findIndex((name, index) => taken.has(name) || names.indexOf(name) < index);
  if (at === -1) return null;
  return { key: at === 0 ? 'name' : `aliases.${at - 1}`, message: `there is another agent named ${names[at]}` };
}
