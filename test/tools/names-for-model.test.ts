import { expect, test } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import { toolNamesForModel } from '../../src/tools/names-for-model.ts';
import type { Tool } from '../../src/tools/tool.ts';

const tool = (name: string): Tool => ({
  name,
  description: name,
  inputSchema: { type: 'object' },
  execute: async () => null,
});

test('an agent’s tools are told as its model calls them, and not where they come from', async () => {
  const toolsOf = createToolCatalogue({
    sets: { set: [tool('a'), tool('b')] },
    builtIn: [tool('built_in')],
    loadModule: async () => [tool('of_module')],
    createHttpTool: ({ name }) => tool(name),
    mcp: { toolsOf: () => [] },
  });
  const agent = agentSchema.parse({
    name: 'tester',
    model: 'simulated/x',
    tools: [
      'set',
      { module: './secret-place.ts' },
      { http: 'https://internal.example/place_order' },
      { client: { name: 'ask', description: 'Asks.' } },
      { mcp: 'files' },
      { mcp: 'git', include: ['log', 'show it'] },
    ],
  });
  const shown = await toolNamesForModel(toolsOf, agent);
  const [last] = shown.slice(-1);
  expect(shown.slice(0, -1)).toEqual(['a', 'b', 'of_module', 'place_order', 'ask', 'built_in', 'files__*', 'git__log']);
  expect(last).toMatch(/^git__show_it_[0-9a-f]{8}$/);
});
