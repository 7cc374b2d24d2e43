import { createRoute, z } from '@hono/zod-openapi';
import { agentVersion } from '../../agents/agent.ts';
import { defaultAgentOf } from '../../agents/default-agent.ts';
import { BatonError } from '../../domain/errors.ts';
import { refuseUnusableModels } from '../../model/configured-models.ts';
import { toolNamesForModel } from '../../tools/names-for-model.ts';
import { noQuery } from '../bodies/fields.ts';
import { jsonOf, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export const agentBody = z
  .object({
    name: z.string(),
    version: z.string(),
    description: z.string().nullable(),
    isDefault: z.boolean().openapi({ description: 'A chat or a task that names no agent gets this one.' }),
    model: z.string(),
    fallbacks: z.array(z.string()).openapi({ description: 'Asked one after another while it cannot answer.' }),
    models: z.array(z.string()).openapi({
      description: 'Others that its sessions may take; one that ends with `*` stands for all that begin so.',
    }),
    tools: z.array(z.string()).openapi({
      description:
        'As its model calls them; `SERVER__*` stands for what an MCP server offers. Empty where they cannot be had.',
    }),
    leftOutTools: z
      .array(z.object({ server: z.string(), tool: z.string(), reason: z.string() }))
      .openapi({ description: 'Tools of its MCP servers that it is not offered, as this process saw them last.' }),
    problems: z.array(z.string()).openapi({ description: 'Why no session can be created of it now; empty: one can.' }),
  })
  .openapi('Agent');

export const rejectedBody = z
  .object({
    file: z.string(),
    keys: z.array(z.string()),
    problem: z.string().nullable().openapi({
      description: 'May quote the file: null for a key without the scopes `admin` and `operator`.',
    }),
  })
  .openapi('RejectedAgentFile', {
    description: 'A file that cannot be used. While there is one, all agents stay as they were before.',
  });

const listBody = z.object({
  agents: z.array(agentBody),
  rejected: z.array(rejectedBody).openapi({ description: 'Files that have changed and cannot be used.' }),
});

const list = createRoute({
  method: 'get',
  path: '/v1/agents',
  operationId: 'listAgents',
  tags: ['agents'],
  summary: 'List the agents that sessions can be created of',
  request: { query: noQuery },
  responses: { 200: jsonOf(listBody, 'All agents of this server.'), ...REFUSED },
});

export function registerAgentRoutes(app: BatonApp, deps: HttpDeps): void {
  const { agents, toolsOf, modelCheck } = deps;
  app.openapi(list, async (c) => {
    const known = await agents.current();
    const defaultName = defaultAgentOf(known, deps.defaultAgent);
    const all = known.names().map(async (name) => {
      const agent = known.get(name);
      const { description = null, model, models, fallbacks = [] } = agent;
      const problems: string[] = [];
      const tools = await toolNamesForModel(toolsOf, agent).catch((error: unknown) => {
        problems.push(wordsOf(error));
        return [];
      });
      try {
        refuseUnusableModels(agent, known, modelCheck);
      } catch (error) {
        problems.push(wordsOf(error));
      }
      const isDefault = name === defaultName;
      const leftOutTools = [...((await deps.leftOutTools?.(agent)) ?? [])];
      const version = agentVersion(agent);
      return { name, version, description, isDefault, model, fallbacks, models, tools, leftOutTools, problems };
    });
    const { scopes } = c.get('caller');
    const mayReadFiles = scopes.includes('admin') || scopes.includes('operator');
    const rejected = (agents.rejected?.() ?? []).map(({ file, keys, message }) => ({
      file,
      keys: [...keys],
      problem: mayReadFiles ? message : null,
    }));
    return c.json({ agents: await Promise.all(all), rejected }, 200);
  });
}

/** Callers read only the message of a BatonError. Any other error may hold facts that are not meant for them. */
const wordsOf = (error: unknown): string =>
  error instanceof BatonError ? error.message : 'Its tools cannot be listed: the log of the service says why';
