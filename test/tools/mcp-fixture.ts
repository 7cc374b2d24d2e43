import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Agent, agentSchema } from '../../src/agents/agent.ts';
import { mcpServersSchema } from '../../src/agents/mcp-servers.ts';
import type { ToolSource } from '../../src/agents/tool-sources.ts';
import type { ToolDrift } from '../../src/domain/run/tool-drift.ts';
import type { TakeRoom } from '../../src/platform/arriving-bytes.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import { createMcpServers, type McpServers } from '../../src/tools/mcp/mcp-servers.ts';
import type { OutsideWork, Tool } from '../../src/tools/tool.ts';
import { isServerTool } from '../../src/tools/tool.ts';
import { contextOf } from './workspace-fixture.ts';

const REFERENCE_SERVERS = {
  everything: import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'),
  filesystem: import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'),
};

/** The entry point of one of the reference servers. */
export const referenceServer = (name: keyof typeof REFERENCE_SERVERS): string => fileURLToPath(REFERENCE_SERVERS[name]);

export type McpFixture = AsyncDisposable &
  Readonly<{
    servers: McpServers;
    logged: readonly LogEvent[];
    /** Differences that calls have found between the tools and the pinned ones. */
    drifts: readonly ToolDrift[];
    /** An agent with these tools pinned, as a new session would keep it. */
    pin: (tools: readonly ToolSource[]) => Promise<Agent>;
    toolsOf: (agent: Agent) => Promise<readonly Tool[]>;
    call: (
      agent: Agent,
      name: string,
      input?: unknown,
      signal?: AbortSignal,
      outside?: OutsideWork,
      takeRoom?: TakeRoom,
    ) => Promise<unknown>;
  }>;

const idle = new AbortController().signal;

/** The MCP servers of a process, with the agents that use them. */
export function createMcpFixture(
  configs: unknown,
  environment: NodeJS.ProcessEnv = process.env,
  times: Readonly<{ maxListAgeMs?: number; unusedAfterMs?: number }> = {},
): McpFixture {
  const logged: LogEvent[] = [];
  const drifts: ToolDrift[] = [];
  const log = (_level: string, event: LogEvent): void => void logged.push(event);
  const servers = createMcpServers(mcpServersSchema.parse(configs), { environment, log, ...times });
  const toolsOf = createToolCatalogue({ sets: {}, mcp: servers });
  return {
    servers,
    logged,
    drifts,
    toolsOf,
    pin: (tools) => servers.pin(agentSchema.parse({ name: 'tester', model: 'simulated/test', tools }), idle),
    async call(agent, name, input = {}, signal = idle, outside, takeRoom = undefined) {
      const tool = (await toolsOf(agent)).find((candidate) => candidate.name === name);
      if (!isServerTool(tool)) throw new Error(`no tool ${name}`);
      const reportDrift = async (drift: ToolDrift) => void drifts.push(drift);
      const given = { ...(outside && { outside }), ...(takeRoom && { takeRoom }) };
      return tool.execute(input, { ...contextOf(signal), reportDrift, ...given });
    },
    [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose](),
  };
}

export type FixtureTool = Readonly<{
  name: string;
  description?: string;
  annotations?: object;
  /** The server's answer to a call, valid or not. */
  answer?: object;
}>;

export type ServerFiles = Disposable &
  Readonly<{
    config: Readonly<{ command: string; args: readonly string[] }>;
    /** Replaces the tools that the server offers. */
    offer: (...tools: readonly FixtureTool[]) => void;
    /** The calls and other events in the server, line by line. */
    ledger: () => string[];
    /** The ids of all processes that the server has run in. */
    pids: () => number[];
  }>;

/** The files of a server of our own, whose tools can be changed while it runs. */
export function createServerFiles(...tools: readonly FixtureTool[]): ServerFiles {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-mcp-'));
  const [file, ledger] = [path.join(folder, 'tools.json'), path.join(folder, 'ledger')];
  const offer = (...offered: readonly FixtureTool[]): void => {
    writeFileSync(file, JSON.stringify(offered.map((tool) => ({ inputSchema: { type: 'object' }, ...tool }))));
  };
  offer(...tools);
  writeFileSync(ledger, '');
  const lines = (): string[] => readFileSync(ledger, 'utf8').trim().split('\n');
  return {
    config: {
      command: process.execPath,
      args: [fileURLToPath(new URL('./mcp-server.ts', import.meta.url)), file, ledger],
    },
    offer,
    ledger: () => lines().filter((line) => line !== '' && !line.startsWith('start ')),
    pids: () =>
      lines()
        .filter((line) => line.startsWith('start '))
        .map((line) => Number(line.slice(6))),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
