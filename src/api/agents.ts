import { createRoute, z } from '@hono/zod-openapi';
import { noQuery } from './fields.ts';
import { jsonOf, REFUSED } from './responses.ts';

const agentBody = z
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

const rejectedBody = z
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

export const listAgentsRoute = createRoute({
  method: 'get',
  path: '/v1/agents',
  operationId: 'listAgents',
  tags: ['agents'],
  summary: 'List the agents that sessions can be created of',
  request: { query: noQuery },
  responses: { 200: jsonOf(listBody, 'All agents of this server.'), ...REFUSED },
});
