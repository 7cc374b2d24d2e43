import { expect, it } from 'vitest';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import type { Tool } from '../../src/tools/tool.ts';

const tool = (name: string, description = name): Tool => ({
  name,
  description,
  inputSchema: { type: 'object' },
  execute: async () => null,
});
const toolsOf = createToolCatalogue({ set: [tool('a'), tool('b', 'not the built-in one')] }, [tool('b'), tool('c')]);
const namesOf = (...names: string[]): string[] => toolsOf(names).map(({ description }) => description);

it('gives the built-in tools to every agent that has a tool, each once, also where it names them', () => {
  expect(namesOf('a')).toEqual(['a', 'b', 'c']);
  expect(namesOf('c', 'a')).toEqual(['c', 'a', 'b']);
  expect(namesOf('c')).toEqual(['c', 'b']);
});

it('gives nothing to an agent that has no tools', () => {
  expect(namesOf()).toEqual([]);
});

it('lets no other tool take the name of a built-in one', () => {
  expect(namesOf('set')).toEqual(['a', 'b', 'c']);
  expect(namesOf('b')).toEqual(['b', 'c']);
});

it('refuses a name that nothing provides', () => {
  expect(() => toolsOf(['a', 'nothing'])).toThrow('nothing');
});
