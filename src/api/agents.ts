import { createRoute, z } from '@hono/zod-openapi';
import { noQuery } from './fields.ts';
import { jsonOf, REFUSED } from './responses.ts';

const percent = z.number().nullable();

const agentBody = z
  .object({
    name: z.string(),
    version: z.string(),
    description: z.string().nullable(),
    isDefault: z.boolean().openapi({ description: 'True: a chat or a task that names no agent gets this one.' }),
    model: z.string(),
    fallbacks: z
      .array(z.string())
      .openapi({ description: 'Models that are asked one after another while the agent’s model cannot answer.' }),
    models: z.array(z.string()).openapi({
      description: 'Other models that sessions may use. A name that ends with `*` stands for all that begin so.',
    }),
    tools: z.array(z.string()).openapi({
      description:
        'Tool names as the model calls them. `SERVER__*` stands for the tools of an MCP server. Empty if the tools cannot be loaded.',
    }),
    leftOutTools: z.array(z.object({ server: z.string(), tool: z.string(), reason: z.string() })).openapi({
      description: 'Tools of the agent’s MCP servers that the model is not offered, as this process saw them last.',
    }),
    context: z
      .object({
        strategy: z.string(),
        summarizer: z.string().openapi({
          description:
            'Writer of summaries: a model, `agent:NAME`, or `__same__` for the model of the session. Strategies that need no model do not use it.',
        }),
        pruneAtPercent: percent.openapi({
          description: 'Share of the usable tokens from which old tool outputs are cleared. null: only on request.',
        }),
        compactAtPercent: percent.openapi({
          description:
            'Share of the usable tokens from which a compaction begins if it pays. null: only when a request does not fit.',
        }),
        compactByPercent: percent.openapi({
          description: 'Share of the usable tokens from which a compaction begins whatever it costs. null: as above.',
        }),
      })
      .openapi({ description: 'Strategy and thresholds that keep the context small, as the agent’s file has them.' }),
    problems: z
      .array(z.string())
      .openapi({ description: 'Reasons why no session of the agent can be created now. Empty: one can.' }),
  })
  .openapi('Agent');

const rejectedBody = z
  .object({
    file: z.string(),
    keys: z.array(z.string()),
    problem: z.string().nullable().openapi({
      description: 'Message that may quote the file. null for a key without the scopes `admin` and `operator`.',
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
