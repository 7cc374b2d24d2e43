import { createRoute, z } from '@hono/zod-openapi';
import { agentVersion } from '../../agents/agent.ts';
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
    model: z.string(),
    models: z.array(z.string()).openapi({
      description: 'Others that its sessions may take; one that ends with `*` stands for all that begin so.',
    }),
    tools: z.array(z.string()).openapi({
      description:
        'As its model calls them; `SERVER__*` stands for what an MCP server offers. Empty where they cannot be had.',
    }),
  })
  .openapi('Agent');

const list = createRoute({
  method: 'get',
  path: '/v1/agents',
  operationId: 'listAgents',
  tags: ['agents'],
  summary: 'List the agents that sessions can be created of',
  request: { query: noQuery },
  responses: { 200: jsonOf(z.object({ agents: z.array(agentBody) }), 'All agents of this server.'), ...REFUSED },
});

export function registerAgentRoutes(app: BatonApp, { agents, toolsOf }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const known = await agents.current();
    const all = known.names().map(async (name) => {
      const agent = known.get(name);
      const { description = null, model, models } = agent;
      // An empty list: creating a session of this agent says why its tools are not available.
      const tools = await toolNamesForModel(toolsOf, agent).catch(() => []);
      return { name, version: agentVersion(agent), description, model, models, tools };
    });
    return c.json({ agents: await Promise.all(all) }, 200);
  });
}
