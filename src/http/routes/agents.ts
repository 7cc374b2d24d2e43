import { createRoute, z } from '@hono/zod-openapi';
import { agentVersion } from '../../agents/agent.ts';
import { toolSourceLabel } from '../../agents/tool-sources.ts';
import { noQuery } from '../fields.ts';
import type { BatonApp, HttpDeps } from '../http-deps.ts';
import { jsonOf, REFUSED } from '../responses.ts';

export const agentBody = z
  .object({
    name: z.string(),
    version: z.string(),
    description: z.string().nullable(),
    model: z.string(),
    tools: z.array(z.string()),
  })
  .openapi('Agent');

const list = createRoute({
  method: 'get',
  path: '/v1/agents',
  tags: ['agents'],
  summary: 'List the agents that sessions can be created of',
  request: { query: noQuery },
  responses: { 200: jsonOf(z.object({ agents: z.array(agentBody) }), 'All agents of this server.'), ...REFUSED },
});

/** What there is to create sessions of. */
export function registerAgentRoutes(app: BatonApp, { agents }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const known = await agents.current();
    const all = known.names().map((name) => {
      const agent = known.get(name);
      const { description = null, model, tools } = agent;
      return { name, version: agentVersion(agent), description, model, tools: tools.map(toolSourceLabel) };
    });
    return c.json({ agents: all }, 200);
  });
}
