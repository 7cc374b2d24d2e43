import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { parse } from 'yaml';
import { agentFileSchema } from '../../src/agents/agent.ts';
import { mcpServersSchema } from '../../src/agents/mcp-servers.ts';
import { DEFAULT_TOOL_TIMEOUT_MS, MAX_KEPT_OUTPUT_CHARS, MAX_TOOL_OUTPUT_CHARS } from '../../src/domain/tunables.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import { createModuleLoader, moduleToolSchema } from '../../src/tools/load-module.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { defaultWorkspaceLimits } from '../../src/tools/workspace/workspace-limits.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { loadAgents } from '../support/load-agents.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const docs = readFileSync(path.join(ROOT, 'docs/tools.md'), 'utf8');
const [agent, file] = [...docs.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, block]) => parse(block ?? '') as object);

describe('docs/tools.md', () => {
  it('shows an agent and a file of MCP servers that are accepted', () => {
    expect(agentFileSchema.parse(agent).tools.length).toBe(4);
    expect(Object.keys(mcpServersSchema.parse(file && 'mcpServers' in file ? file.mcpServers : null))).toEqual([
      'files',
      'docs',
    ]);
  });

  it('explains every key of a tool, and none that there is not', () => {
    const [, table = ''] = /\| key \| what \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(docs) ?? [];
    const keys = table.split('\n').flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`(\w+)/g)]);
    expect(keys.map(([, key]) => key).toSorted()).toEqual(Object.keys(moduleToolSchema.shape).toSorted());
    // The service itself makes the others, of its own or for a client's.
    type OfModules = Exclude<
      keyof Tool,
      'deferred' | 'paged' | 'child' | 'checksInput' | 'takesWrittenNumbers' | 'resumes' | 'strict'
    >;
    expectTypeOf<keyof typeof moduleToolSchema.shape>().toEqualTypeOf<OfModules>();
    expect(table).toContain(
      `| \`timeoutMs\` | [of one call](#how-long-a-call-may-run); default ${DEFAULT_TOOL_TIMEOUT_MS / 60_000} minutes |`,
    );
    expect(table).toContain(`default ${MAX_TOOL_OUTPUT_CHARS.toLocaleString('en').replaceAll(',', ' ')} |`);
  });

  it('names the limits that hold', () => {
    const { readMaxLines, readMaxLineChars, grepMaxMatches } = defaultWorkspaceLimits;
    const spaced = (count: number): string => count.toLocaleString('en').replaceAll(',', ' ');
    const bash = createWorkspaceTools({ root: '.' }).find(({ name }) => name === 'bash')?.maxOutputChars ?? 0;
    expect(docs).toContain(
      `| \`bash\` | ${spaced(MAX_KEPT_OUTPUT_CHARS)} characters, head and tail | ${spaced(bash)} characters |`,
    );
    expect(docs).toContain(
      `| ${spaced(readMaxLines)} lines of ${spaced(readMaxLineChars)} characters | ${spaced(MAX_TOOL_OUTPUT_CHARS)}`,
    );
    expect(docs).toContain(`| \`grep\` | ${spaced(grepMaxMatches)} matches`);
  });
});

it('the example agents have the tools that they name', async () => {
  const folder = path.join(ROOT, 'examples/agents');
  const agents = loadAgents(folder);
  const toolsOf = createToolCatalogue({ sets: {}, loadModule: createModuleLoader(folder, 'workspace') });
  for (const name of agents.names()) expect((await toolsOf(agents.get(name))).length).toBeGreaterThan(0);
});
