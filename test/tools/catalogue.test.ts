import { describe, expect, it } from 'vitest';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { workspaceLimitsOf } from '../../src/tools/workspace/workspace-limits.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';

const tool = (name: string, description = name): Tool => ({
  name,
  description,
  inputSchema: { type: 'object' },
  execute: async () => null,
});
const toolsOf = createToolCatalogue({
  sets: {
    set: [tool('a'), tool('b', 'not the built-in one')],
    workspace: (limits) => createWorkspaceTools({ root: '.', limits: workspaceLimitsOf(limits) }),
  },
  builtIn: [tool('b'), tool('c')],
  loadModule: async (module) => [tool(module)],
});
const agent = { name: 'tester', tools: [], toolLimits: {}, approvals: [], mcpServers: {} };
const namesOf = async (...tools: (string | { module: string })[]): Promise<string[]> =>
  (await toolsOf({ ...agent, tools })).map(({ description }) => description);

describe('the tools of an agent', () => {
  it('have the built-in ones among them, each once, also where it names them', async () => {
    expect(await namesOf('a')).toEqual(['a', 'b', 'c']);
    expect(await namesOf('c', 'a')).toEqual(['c', 'a', 'b']);
    expect(await namesOf('c')).toEqual(['c', 'b']);
  });

  it('are none where it names none', async () => {
    expect(await namesOf()).toEqual([]);
  });

  it('leave the name of a built-in one to that', async () => {
    expect(await namesOf('set')).toEqual(['a', 'b', 'c']);
    expect(await namesOf('b')).toEqual(['b', 'c']);
  });

  it('are those of the set that it names, whatever another set calls by the same name', async () => {
    const catalogue = createToolCatalogue({
      sets: { workspace: [tool('bash', 'runs')], recorded: [tool('bash', 'remembers')] },
    });
    const [bash] = await catalogue({ ...agent, tools: ['recorded'] });
    expect(bash?.description).toBe('remembers');
  });

  it('may be named twice, by their set and by themselves', async () => {
    expect(await namesOf('set', 'a')).toEqual(['a', 'b', 'c']);
  });

  it.each([
    ['of a set', [{ module: 'a' }, 'set'], 'tools.1: there is another tool named a'],
    ['that is built in', [{ module: 'c' }], 'tools.0.module: there is another tool named c'],
    ['of another module', [{ module: 'x' }, { module: 'x' }], 'tools.1.module: there is another tool named x'],
  ])('do not share a name with one %s', async (_what, tools, message) => {
    await expect(toolsOf({ ...agent, tools })).rejects.toMatchObject({ code: 'config_invalid', message });
  });

  it('are refused with the key of a name that nothing provides', async () => {
    await expect(namesOf('a', 'nothing')).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^tools\.1: there is no tool or tool set named nothing; known: a, /),
    });
    await expect(namesOf('sett')).rejects.toThrow(
      'tools.0: there is no tool or tool set named sett (did you mean "set"?)',
    );
  });

  it('are built once for one definition', async () => {
    const twice = await Promise.all([toolsOf({ ...agent, tools: ['set'] }), toolsOf({ ...agent, tools: ['set'] })]);
    expect(twice[0]).toBe(twice[1]);
  });
});

describe('an agent’s tool limits', () => {
  it('reach any tool, and those of the workspace at the source', async () => {
    const toolLimits = {
      a: { maxOutputChars: 900 },
      bash: { maxOutputChars: 1_200 },
      read_file: { maxLines: 7, maxLineLength: 70 },
      grep: { maxMatches: 17 },
    };
    const tools = await toolsOf({ ...agent, tools: ['set', 'workspace'], toolLimits });
    const find = (name: string) => tools.find((candidate) => candidate.name === name);
    expect(find('a')?.maxOutputChars).toBe(900);
    expect(find('b')?.maxOutputChars).toBeUndefined();
    expect(find('bash')).toMatchObject({ maxOutputChars: 1_200 });
    expect(find('read_file')?.description).toContain('At most 7 lines a call and 70 characters a line');
    expect(find('grep')?.description).toContain('At most 17 matches');
  });

  it('are refused for a tool that the agent does not have', async () => {
    await expect(toolsOf({ ...agent, tools: ['a'], toolLimits: { bash: {} } })).rejects.toMatchObject({
      code: 'config_invalid',
      message: 'toolLimits.bash: the agent has no tool of this name',
    });
  });
});

describe('an agent’s approvals', () => {
  const client = { name: 'look', description: 'Looks.', inputSchema: { type: 'object' } } as const;

  it('are needed for what it names, and the client’s tools come without code', async () => {
    const tools = await toolsOf({ ...agent, tools: ['set', { client }], approvals: ['a', 'b'] });
    expect(tools.map(({ name, needsApproval, execute }) => [name, needsApproval, execute !== undefined])).toEqual([
      ['a', true, true],
      ['b', true, true],
      ['look', undefined, false],
      ['c', undefined, true],
    ]);
    expect((await toolsOf({ ...agent, tools: ['set', { client }] }))[0]?.needsApproval).toBeUndefined();
  });

  it.each([
    ['nothing', 'approvals.1: nothing: the agent has no tool of this name'],
    ['look', 'approvals.1: look: the client runs this tool and decides'],
  ])('are refused for %s', async (name, message) => {
    const asked = toolsOf({ ...agent, tools: ['a', { client }], approvals: ['a', name] });
    await expect(asked).rejects.toMatchObject({ code: 'config_invalid', message });
  });
});
