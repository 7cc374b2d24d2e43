import { createHash } from 'node:crypto';
import { z } from 'zod';
import { contextPolicySchema } from '../domain/context/limits/policy.ts';
import { BatonError } from '../domain/errors.ts';
import { modelSettingsSchema } from '../domain/model/model-settings.ts';
import { outputFormatSchema } from '../domain/run/output-format.ts';
import { MAX_DURATION_MS, runLimitsSchema } from '../domain/run/run-limits.ts';
import { mcpServersSchema } from './mcp-servers.ts';
import { pinnedToolsSchema } from './pinned-tools.ts';
import { toolLimitsSchema, toolSourceSchema } from './tool-sources.ts';

const positive = z.number().int().positive();

const modelName = z.string().regex(/^[a-z0-9-]+\/.+$/, 'provider/model, for example openai/gpt-5.4');

/** Models of an agent, its fallbacks included. */
const MAX_MODELS = 5;

/** An agent as in its YAML file. A session keeps a copy (`sessions.agent_snapshot`). */
export const agentSchema = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'lower-case letters, digits, - and _, at most 64'),
  /** Further names by which clients of OpenAI's API ask for it: many have a fixed list of models. */
  aliases: z
    .array(
      z
        .string()
        .regex(
          /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/,
          'letters, digits, and . _ : / - after the first one, at most 128',
        ),
    )
    .max(50)
    .optional(),
  description: z.string().optional(),
  /** Requests that name no agent get this one. At most one agent sets it. */
  default: z.boolean().optional(),
  /** The provider `simulated` needs no key. */
  model: modelName,
  /**
   * Models that are asked one after another when those before cannot answer. In a file they follow the model, in a
   * list.
   */
  fallbacks: z
    .array(modelName)
    .max(MAX_MODELS - 1)
    .optional(),
  /** Further models that its sessions may choose. A final `*` matches any ending. */
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
  /** Tools in the order in which the model is offered them. */
  tools: z.array(toolSourceSchema).default([]),
  /** Servers in addition to those of the configuration. */
  mcpServers: mcpServersSchema.default({}),
  /** Overrides of tool limits, by tool name. */
  toolLimits: toolLimitsSchema.default({}),
  /** Names of tools whose calls a person must approve. */
  approvals: z.array(z.string().min(1)).default([]),
  limits: z
    .strictObject({
      ...runLimitsSchema.shape,
      toolConcurrency: positive.max(64).optional(),
      /** Longest wait of a run for answers, in milliseconds. Default: no limit. */
      approvalTimeoutMs: positive.max(MAX_DURATION_MS).optional(),
      /** After a limit has ended the work, the model is asked for one last report, without tools. */
      finalAnswer: z.boolean().optional(),
      /** The longest model answer, in milliseconds. Default: `BATON_STEP_TIMEOUT_MS`. */
      stepTimeoutMs: positive.max(86_400_000).optional(),
    })
    .default({}),
  settings: modelSettingsSchema.default({}),
  /** The result that its runs are asked for. */
  output: outputFormatSchema.optional(),
  context: contextPolicySchema.prefault({}),
  /**
   * The model has to call a tool in its first answer to a message: any tool, or the named one. Absent in a file:
   * clients of OpenAI's API set it for a request.
   */
  toolChoice: z.union([z.literal('required'), z.strictObject({ tool: z.string() })]).optional(),
  /** The model makes one call at a time. Absent in a file: clients of OpenAI's API set it for a request. */
  parallelToolCalls: z.literal(false).optional(),
  /** The tools of its MCP servers when the session was created or repinned. Absent in a file. */
  pinnedTools: pinnedToolsSchema.optional(),
});

/** An agent as its author writes it. `toAgent` makes an agent of it. */
export const agentFileSchema = agentSchema
  .omit({ pinnedTools: true, toolChoice: true, parallelToolCalls: true, fallbacks: true })
  .extend({
    /** A model or a list of models. The first one is asked, and the others in its place while it cannot answer. */
    model: z.union(
      [
        modelName,
        z
          .array(modelName)
          .min(1)
          .max(MAX_MODELS)
          .refine((models) => new Set(models).size === models.length, { error: 'names a model twice' }),
      ],
      { error: ({ input }) => (input === undefined ? 'is missing (expected string)' : undefined) },
    ),
  });

export function toAgent({ model, ...rest }: z.infer<typeof agentFileSchema>): Agent {
  if (typeof model === 'string') return { ...rest, model };
  const [first = '', ...fallbacks] = model;
  return { ...rest, model: first, ...(fallbacks.length > 0 && { fallbacks }) };
}

/** The agent with the model at a position of its list. Beyond the end of the list it keeps its first model. */
export function atModel(agent: Agent, position: number): Agent {
  const model = [agent.model, ...(agent.fallbacks ?? [])][position];
  return model === undefined ? agent : { ...agent, model };
}

export type Agent = z.infer<typeof agentSchema>;

/** @throws BatonError `config_invalid` if the stored snapshot cannot be read */
export function readAgent(snapshot: unknown): Agent {
  const agent = agentSchema.safeParse(snapshot);
  if (agent.success) return agent.data;
  throw new BatonError('config_invalid', 'the snapshot of the agent cannot be read', { cause: agent.error });
}

/** Whether completions announce a compaction in their text. False for a snapshot that cannot be read. */
export function tellsOfCompaction(snapshot: unknown): boolean {
  return agentSchema.safeParse(snapshot).data?.context.compaction.notice === 'text';
}

export function agentVersion(agent: Agent): string {
  return createHash('sha256').update(JSON.stringify(agent)).digest('hex').slice(0, 16);
}

/** The agents at one moment. */
export type AgentSet = Readonly<{
  /** @throws BatonError `agent_not_found` that lists the known names */
  get: (name: string) => Agent;
  names: () => readonly string[];
  /** The agent with this name or alias. Null: there is none. */
  find: (nameOrAlias: string) => Agent | null;
}>;

/** The agents of this process. They may change while it runs, so call `current` for each use. */
export type AgentCatalogue = Readonly<{
  current: () => Promise<AgentSet>;
  /**
   * Files that keep the newest definitions from being used, as of the last `current`. Absent: no file can be rejected.
   */
  rejected?: () => readonly RejectedFile[];
}>;

/** A file that cannot be used. The message may hold some of its content. */
export type RejectedFile = Readonly<{ file: string; keys: readonly string[]; message: string }>;
