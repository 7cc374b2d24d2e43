import { createHash } from 'node:crypto';
import { z } from 'zod';
import { contextPolicySchema } from '../domain/context/limits/policy.ts';
import { BatonError } from '../domain/errors.ts';
import { modelSettingsSchema } from '../domain/model/model-settings.ts';
import { MAX_DURATION_MS, runLimitsSchema } from '../domain/run/run-limits.ts';
import { mcpServersSchema } from './mcp-servers.ts';
import { pinnedToolsSchema } from './pinned-tools.ts';
import { toolLimitsSchema, toolSourceSchema } from './tool-sources.ts';

const positive = z.number().int().positive();

/** An agent as its YAML file defines it; a session keeps a copy of the definition it was created with. */
export const agentSchema = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'lower-case letters, digits, - and _, at most 64'),
  description: z.string().optional(),
  /** `provider/model`, for example `openai/gpt-5.4`; the provider `simulated` needs no key. */
  model: z.string().regex(/^[a-z0-9-]+\/.+$/, 'provider/model, for example openai/gpt-5.4'),
  /** Models that its sessions may take beside it; one that ends with `*` stands for all that begin so. */
  models: z
    .array(
      z
        .string()
        .max(200)
        .regex(/^(\*|[a-z0-9-]+(\*|\/.+))$/, 'provider/model, or the beginning of one and *'),
    )
    .max(100)
    .default([]),
  instructions: z.string().default(''),
  /** Where its tools come from, in the order in which the model is offered them. */
  tools: z.array(toolSourceSchema).default([]),
  /** MCP servers of its own, beside those of the configuration. */
  mcpServers: mcpServersSchema.default({}),
  /** What differs from the limits of its tools, by their names. */
  toolLimits: toolLimitsSchema.default({}),
  /** Names of its tools whose calls somebody has to approve before they run. */
  approvals: z.array(z.string().min(1)).default([]),
  limits: z
    .strictObject({
      ...runLimitsSchema.shape,
      toolConcurrency: positive.max(64).optional(),
      /** Milliseconds that a run waits for answers; without it as long as it takes. */
      approvalTimeoutMs: positive.max(MAX_DURATION_MS).optional(),
      /** When a limit ends a run, the model is asked once more, without tools: what was done, and what is open. */
      finalAnswer: z.boolean().optional(),
      /** How long one answer of the model may take, where that is not the service's own limit. */
      stepTimeoutMs: positive.max(86_400_000).optional(),
    })
    .default({}),
  settings: modelSettingsSchema.default({}),
  context: contextPolicySchema.prefault({}),
  /** What its MCP servers offered when the session was created; a definition has none. */
  pinnedTools: pinnedToolsSchema.optional(),
});

/** What stands in an agent's file. */
export const agentFileSchema = agentSchema.omit({ pinnedTools: true });

export type Agent = z.infer<typeof agentSchema>;

/** The agent that a session has. @throws BatonError `config_invalid` where what is stored cannot be read */
export function readAgent(snapshot: unknown): Agent {
  const agent = agentSchema.safeParse(snapshot);
  if (agent.success) return agent.data;
  throw new BatonError('config_invalid', 'the snapshot of the agent cannot be read', { cause: agent.error });
}

/** Whether the text of completions says that the context is being compacted. An agent that cannot be read says nothing. */
export function tellsOfCompaction(snapshot: unknown): boolean {
  return agentSchema.safeParse(snapshot).data?.context.compaction.notice === 'text';
}

/** Changes when anything in the definition changes. */
export function agentVersion(agent: Agent): string {
  return createHash('sha256').update(JSON.stringify(agent)).digest('hex').slice(0, 16);
}

/** Agents by name, as they are at one moment. */
export type AgentSet = Readonly<{
  /** @throws BatonError `agent_not_found` that lists the known names */
  get: (name: string) => Agent;
  names: () => readonly string[];
}>;

/** The agents of this process. They may change while it runs: whoever needs some asks for those that there are now. */
export type AgentCatalogue = Readonly<{ current: () => Promise<AgentSet> }>;
