import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { mcpServersSchema } from '../../src/agents/mcp-servers.ts';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { BatonError } from '../../src/domain/errors.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import { checkAgentTools } from '../../src/tools/check-agent-tools.ts';
import { createHttpTool } from '../../src/tools/http/http-tool.ts';
import { createMcpServers } from '../../src/tools/mcp/mcp-servers.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { loadAgents } from '../support/load-agents.ts';

const REPOSITORY_AGENTS = fileURLToPath(new URL('../../agents', import.meta.url));

type Folder = Disposable & Readonly<{ path: string }>;

function folderOf(files: Readonly<Record<string, string>>): Folder {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-agents-'));
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(folder, name), content);
  return { path: folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

function refusal(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    if (error instanceof BatonError && error.code === 'config_invalid') return error.message;
    throw error;
  }
  throw new Error('nothing was refused');
}

const RESEARCHER = `
name: researcher
model: openai/gpt-5.4            # provider/model; provider "simulated" needs no key
instructions: |
  ...
tools: [workspace, read_tool_output, { mcp: docs }, { http: https://tools.example.com/v1/look-up }]
toolLimits: { bash: { maxOutputChars: 30000 }, read_file: { maxLines: 2000, maxLineLength: 2000 }, grep: { maxMatches: 1000 } }
limits: { maxSteps: 100, maxCostUsd: 5, deadlineMs: 3600000, toolConcurrency: 8, finalAnswer: true }   # finalAnswer: one last tool-less answer (≤ 60 s) when a limit ends the run
context:
  compaction: { strategy: reactive-overflow, model: __same__, options: { preserveLastNTurns: 2 } }
  prune: { protectTokens: 40000, minimumTokens: 20000 }
`;

const WRITER = 'name: writer\nmodel: openai/gpt-5.4\n';

describe('the agents of the repository', () => {
  it('load, each with tools that exist', async () => {
    const agents = loadAgents(REPOSITORY_AGENTS);
    expect(agents.names()).toContain('workspace');
    const toolsOf = createToolCatalogue({ sets: { workspace: createWorkspaceTools({ root: '.' }) } });
    for (const name of agents.names()) expect((await toolsOf(agents.get(name))).length).toBeGreaterThan(0);
  });
});

describe('a folder of agents', () => {
  it('gives its YAML files as agents, with what they leave out filled in', () => {
    using folder = folderOf({
      'writer.yaml': WRITER,
      'reader.yml': 'name: reader\nmodel: simulated/test\ntools: [workspace]\nlimits: { maxSteps: 3 }\n',
      'notes.md': 'not: an agent',
      '.#writer.yaml': 'not: an agent',
    });
    const agents = loadAgents(folder.path);
    expect(agents.names()).toEqual(['reader', 'writer']);
    expect(agents.get('writer')).toEqual({
      name: 'writer',
      model: 'openai/gpt-5.4',
      models: [],
      instructions: '',
      tools: [],
      mcpServers: {},
      toolLimits: {},
      approvals: [],
      limits: {},
      settings: {},
      context: contextPolicySchema.parse({}),
    });
    expect(agents.get('reader')).toMatchObject({ tools: ['workspace'], limits: { maxSteps: 3 } });
  });

  it('may say everything that an agent can, with tools that exist', async () => {
    using folder = folderOf({ 'researcher.yaml': RESEARCHER });
    const agents = loadAgents(folder.path);
    expect(agents.get('researcher')).toMatchObject({
      toolLimits: { bash: { maxOutputChars: 30_000 }, grep: { maxMatches: 1000 } },
      limits: { maxSteps: 100, maxCostUsd: 5, deadlineMs: 3_600_000, toolConcurrency: 8, finalAnswer: true },
      context: {
        compaction: { strategy: 'reactive-overflow', model: '__same__', options: { preserveLastNTurns: 2 } },
        prune: { protectTokens: 40_000, minimumTokens: 20_000 },
      },
    });
    const shared = mcpServersSchema.parse({ docs: { url: 'https://docs.example.com/mcp' } });
    await using mcp = createMcpServers(shared, { environment: {}, log: () => undefined });
    const toolsOf = createToolCatalogue({
      sets: { workspace: createWorkspaceTools({ root: '.' }), read_tool_output: [] },
      createHttpTool: (tool, key) => createHttpTool(tool, {}, { allowPrivate: false, allowedHosts: [] }, key),
      mcp,
    });
    await expect(checkAgentTools(agents.get('researcher'), toolsOf)).resolves.toBeUndefined();
  });

  it.each([
    ['https://tools.example.com/v1/look-up?by=name', 'look-up', 'tools.example.com/v1/look-up'],
    ['http://tools.example.com', 'tools_example_com', 'tools.example.com/'],
  ])('may name an endpoint by its URL alone: %s', (url, name, where) => {
    using folder = folderOf({ 'writer.yaml': `${WRITER}tools: [{ http: "${url}" }]\n` });
    const description = `Sends its input as JSON to ${where} and returns the answer.`;
    const http = {
      name,
      description,
      url,
      method: 'POST',
      inputSchema: { type: 'object' },
    };
    expect(loadAgents(folder.path).get('writer').tools).toMatchObject([{ http }]);
  });

  it('has every model replaced by the one that the configuration names', () => {
    using folder = folderOf({ 'writer.yaml': WRITER });
    expect(loadAgents(folder.path, 'simulated/other').get('writer').model).toBe('simulated/other');
  });

  it.each([
    ['an unknown key', `${WRITER}modle: x\n`, 'modle'],
    [
      'an unknown key further in',
      `${WRITER}limits: { maxStep: 3 }\n`,
      'limits: unknown key "maxStep" (did you mean "maxSteps"?)',
    ],
    ['a model without its provider', 'name: writer\nmodel: gpt-5.4\n', 'model: provider/model'],
    ['no model', 'name: writer\n', 'model: '],
    ['a name that is not one', 'name: The Writer\nmodel: openai/x\n', 'name: lower-case'],
    ['a tool that is not a name', `${WRITER}tools: [read, 3]\n`, 'tools.1: '],
    [
      'a tool source that is none',
      `${WRITER}tools: [{ modul: ./a.ts }]\n`,
      'tools.0: unknown key "modul" (did you mean "module"?)',
    ],
    ['a tool source that says nothing', `${WRITER}tools: [{}]\n`, 'tools.0: a tool is a name, or one of: module'],
    ['two sources in one', `${WRITER}tools: [{ module: ./a.ts, mcp: docs }]\n`, 'tools.0: a tool is a name, or one of'],
    [
      'a choice without a server',
      `${WRITER}tools: [{ module: ./a.ts, include: [b] }]\n`,
      'tools.0: include, exclude and deferred',
    ],
    ['an endpoint without a URL', `${WRITER}tools: [a, { http: { name: b, description: c } }]\n`, 'tools.1.http.url: '],
    ['an endpoint that is only a word', `${WRITER}tools: [{ http: lookup }]\n`, 'tools.0.http.url: a URL with http'],
    [
      'a setting in another place than its own',
      `${WRITER}context: { compaction: { options: { outputReserve: 2 } } }\n`,
      'context.compaction.options: unknown key "outputReserve"',
    ],
    ['an MCP server that is none', `${WRITER}mcpServers: { docs: { args: [] } }\n`, 'mcpServers.docs: either command'],
    ['definitions that a session would have', `${WRITER}pinnedTools: {}\n`, '(root): unknown key "pinnedTools"'],
    ['a module that is no path', `${WRITER}tools: [read, { module: 3 }]\n`, 'tools.1.module: '],
    [
      'a tool of the client without a description',
      `${WRITER}tools: [{ client: { name: look } }]\n`,
      'tools.0.client.description: ',
    ],
    [
      'a tool of the client whose input is no object',
      `${WRITER}tools: [{ client: { name: look, description: Looks., inputSchema: { type: string } } }]\n`,
      'tools.0.client.inputSchema.type: ',
    ],
    ['approvals that are no names', `${WRITER}approvals: [3]\n`, 'approvals.0: '],
    ['a deadline that has passed', `${WRITER}limits: { deadlineMs: 0 }\n`, 'limits.deadlineMs: '],
    ['a wait without a length', `${WRITER}limits: { approvalTimeoutMs: 0 }\n`, 'limits.approvalTimeoutMs: '],
    [
      'a tool limit out of range',
      `${WRITER}toolLimits: { bash: { maxOutputChars: 1 } }\n`,
      'toolLimits.bash.maxOutput',
    ],
    [
      'a limit that the tool does not have',
      `${WRITER}toolLimits: { bash: { maxLines: 5 } }\n`,
      'toolLimits.bash.maxLines: bash has no such limit',
    ],
    ['a limit out of range', `${WRITER}limits: { toolConcurrency: 65 }\n`, 'limits.toolConcurrency: '],
    ['a setting out of range', `${WRITER}settings: { temperature: 3 }\n`, 'settings.temperature: '],
    [
      'a summarizer that is neither model nor agent',
      `${WRITER}context: { compaction: { model: gpt } }\n`,
      'context.compaction.model: __same__, provider/model, or agent:<name>',
    ],
    [
      'YAML that is none',
      'name: [writer\n',
      'writer.yaml: line 2, column 1: not valid YAML: Flow sequence in block collection',
    ],
    ['a tab', 'name: writer\n\tmodel: x\n', 'line 2, column 1: not valid YAML: '],
    [
      'an unknown setting',
      `${WRITER}settings: { temprature: 1 }\n`,
      'settings: unknown key "temprature" (did you mean "temperature"?)',
    ],
    [
      'a key of another spelling',
      `${WRITER}mcp_servers: {}\n`,
      'unknown key "mcp_servers" (did you mean "mcpServers"?)',
    ],
    ['a missing key', 'name: writer\n', 'model: is missing (expected string)'],
    ['nothing', '', '(root): '],
  ])('is refused for %s, with file and key', (_what, content, named) => {
    using folder = folderOf({ 'good.yaml': 'name: good\nmodel: openai/x\n', 'writer.yaml': content });
    const message = refusal(() => loadAgents(folder.path));
    expect(message).toContain(path.join(folder.path, 'writer.yaml'));
    expect(message).toContain(named);
  });

  it('is refused when two files define one name', () => {
    using folder = folderOf({ 'a.yaml': WRITER, 'b.yaml': WRITER });
    expect(refusal(() => loadAgents(folder.path))).toBe('b.yaml: name: there is another agent named writer');
  });

  it('is asked for by its aliases, of which no two are the same', () => {
    using folder = folderOf({
      'a.yaml': 'name: writer\nmodel: simulated/a\naliases: [gpt-5.5, openai/GPT-3.5-turbo]\n',
      'b.yaml': 'name: reader\nmodel: simulated/b\naliases: [gpt-4o:mini]\n',
    });
    const agents = loadAgents(folder.path);
    expect(agents.names()).toEqual(['reader', 'writer']);
    expect(['openai/GPT-3.5-turbo', 'gpt-4o:mini', 'writer', 'x'].map((name) => agents.find(name)?.name)).toEqual([
      ...['writer', 'reader', 'writer', undefined],
    ]);
    using taken = folderOf({
      'a.yaml': 'name: writer\nmodel: simulated/a\naliases: [gpt-5.5]\n',
      'b.yaml': 'name: reader\nmodel: simulated/b\naliases: [gpt-4o, gpt-5.5]\n',
    });
    expect(refusal(() => loadAgents(taken.path))).toBe('b.yaml: aliases.1: there is another agent named gpt-5.5');
  });

  it('may have one agent summarize for another, which must be there', () => {
    const reader = 'name: reader\nmodel: openai/x\ncontext: { compaction: { model: "agent:writer" } }\n';
    using both = folderOf({ 'reader.yaml': reader, 'writer.yaml': WRITER });
    expect(loadAgents(both.path).get('reader').context.compaction.model).toBe('agent:writer');
    using one = folderOf({ 'reader.yaml': reader });
    expect(refusal(() => loadAgents(one.path))).toBe(
      'reader.yaml: context.compaction.model: no agent is named writer; known: reader',
    );
  });

  it('is refused by its path when it is missing, or when a file of it cannot be read', () => {
    const missing = refusal(() => loadAgents('/nowhere/agents'));
    expect(missing).toMatch(/^the agents' folder \/nowhere\/agents cannot be read \(ENOENT.*BATON_AGENTS_DIR$/);
    expect(missing).toContain(path.join(REPOSITORY_AGENTS, 'workspace.yaml'));
    using folder = folderOf({});
    mkdirSync(path.join(folder.path, 'folder.yaml'));
    expect(refusal(() => loadAgents(folder.path))).toContain('folder.yaml');
  });
});

describe('the catalogue', () => {
  it('says which agents there are when asked for another', () => {
    const agents = createCatalogue(['b', 'a'].map((name) => agentSchema.parse({ name, model: 'openai/x' })));
    expect(() => agents.get('c')).toThrow(
      expect.objectContaining({ code: 'agent_not_found', message: 'there is no agent "c"; known: a, b' }),
    );
  });
});

describe('the version of an agent', () => {
  const agent = agentSchema.parse({ name: 'writer', model: 'openai/x', tools: ['a', 'b'] });

  it('stays the same for the same definition, in whatever order it was written', () => {
    expect(agentVersion(agentSchema.parse({ tools: ['a', 'b'], model: 'openai/x', name: 'writer' }))).toBe(
      agentVersion(agent),
    );
  });

  it.each([
    { name: 'writer2' },
    { description: 'Writes.' },
    { model: 'openai/y' },
    { instructions: 'Write.' },
    { tools: ['b', 'a'] },
    { tools: ['a', { module: './b.ts' }] },
    { toolLimits: { a: { maxOutputChars: 1_000 } } },
    { limits: { maxSteps: 1 } },
    { limits: { toolConcurrency: 1 } },
    { settings: { temperature: 0 } },
  ])('changes with %j', (change) => {
    expect(agentVersion({ ...agent, ...change })).not.toBe(agentVersion(agent));
  });
});
