import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { workingSet } from '../../../src/domain/context/prune/working-set.ts';
import type { ToolOutput, ViewMessage, ViewPart } from '../../../src/domain/transcript/message.ts';

const NAMES = new Set(['docs__find', 'docs__fetch', 'docs__find_all']);
const call = (toolName: string, output?: ToolOutput, marks?: ViewPart['marks']): ViewPart => ({
  type: 'tool',
  toolCallId: 'c',
  toolName,
  input: {},
  state: 'completed',
  ...(output !== undefined && { output }),
  ...(marks !== undefined && { marks }),
});
const viewOf = (...parts: ViewPart[]): ViewMessage[] => [{ id: 'a', seq: 1, role: 'assistant', model: 'm/m', parts }];
const json = (...names: string[]): ToolOutput => ({ type: 'json', value: { tools: names.map((name) => ({ name })) } });
const setOf = (...parts: ViewPart[]) => [...workingSet(viewOf(...parts), NAMES)].toSorted();

describe('the working set', () => {
  it('is what a search has found, and what was called', () => {
    expect(setOf()).toEqual([]);
    expect(setOf(call('search_tools', json('docs__find')))).toEqual(['docs__find']);
    expect(setOf(call('docs__fetch'), call('search_tools', json('docs__find', 'docs__find_all')))).toEqual([
      'docs__fetch',
      'docs__find',
      'docs__find_all',
    ]);
    expect(setOf(call('search_tools', { type: 'text', value: '{"name":"docs__find_all"' }))).toEqual([
      'docs__find_all',
    ]);
  });

  it('is nothing that others only talk about', () => {
    const text = 'docs__find is good';
    expect(setOf({ type: 'text', text }, call('read', { type: 'text', value: text }))).toEqual([]);
    const user: ViewMessage = { id: 'u', seq: 2, role: 'user', model: null, parts: [{ type: 'text', text }] };
    expect([...workingSet([user], NAMES)]).toEqual([]);
  });

  it('loses what a prune has cleared, unless it was called', () => {
    const cleared = call('search_tools', json('docs__find', 'docs__fetch'), { pruned: true });
    expect(setOf(cleared)).toEqual([]);
    expect(setOf(cleared, call('docs__find', undefined, { pruned: true }))).toEqual(['docs__find']);
  });

  it('grows with the view and knows no other names', () => {
    const part = fc
      .constantFrom('docs__find', 'search_tools', 'read')
      .chain((name) => fc.array(fc.constantFrom(...NAMES, 'other')).map((names) => call(name, json(...names))));
    fc.assert(
      fc.property(fc.array(part), part, (parts, more) => {
        const before = workingSet(viewOf(...parts), NAMES);
        const after = workingSet(viewOf(...parts, more), NAMES);
        expect(before.isSubsetOf(after)).toBe(true);
        expect(after.isSubsetOf(NAMES)).toBe(true);
        expect(workingSet(viewOf(...parts), new Set()).size).toBe(0);
      }),
    );
  });
});
