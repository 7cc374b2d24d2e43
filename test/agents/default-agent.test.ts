import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { checkDefault, defaultAgentOf } from '../../src/agents/default-agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { loadAgents } from '../support/load-agents.ts';

type Given = Readonly<{ children?: readonly string[]; default?: boolean }>;

const agents = (given: Readonly<Record<string, Given>>) =>
  createCatalogue(
    Object.entries(given).map(([name, { children = [], ...more }]) =>
      agentSchema.parse({ name, model: 'simulated/any', tools: children.map((agent) => ({ agent })), ...more }),
    ),
  );

describe('the agent of those who name none', () => {
  it('is the one for files among the agents of the repository', () => {
    const folder = fileURLToPath(new URL('../../agents', import.meta.url));
    expect(defaultAgentOf(loadAgents(folder), undefined)).toBe('workspace');
  });

  it.each([
    ['the one that the configuration names', { a: { default: true }, b: {} }, 'b', 'b'],
    ['the one that says so', { a: {}, b: { default: true } }, undefined, 'b'],
    ['the only one', { a: {} }, undefined, 'a'],
    ['the only one that is no child', { a: { children: ['b'] }, b: { children: ['c'] }, c: {} }, undefined, 'a'],
    ['none of two', { a: {}, b: {} }, undefined, null],
    ['none of two that share a child', { a: { children: ['c'] }, b: { children: ['c'] }, c: {} }, undefined, null],
    ['none where there is none', {}, undefined, null],
  ] satisfies [string, Readonly<Record<string, Given>>, string | undefined, string | null][])(
    'is %s',
    (_, given, configured, found) => {
      expect(defaultAgentOf(agents(given), configured)).toBe(found);
    },
  );

  it('may not be two', () => {
    const both = agents({ a: { default: true }, b: { default: true }, c: { default: false } });
    expect(() => checkDefault(both.get('a'), both)).toThrow('default: b is the default, too');
    expect(() => checkDefault(both.get('c'), both)).not.toThrow();
  });
});
