import type { LanguageModel } from 'ai';
import type { z } from 'zod';
import type { agentFileSchema } from '../agents/agent.ts';
import type { toolSourceSchema } from '../agents/tool-sources.ts';
import type { JsonSchema, ServerTool, ToolContext } from '../tools/tool.ts';

/** A tool of an agent in code, without its name. */
export type CodeTool = Readonly<
  Omit<ServerTool, 'name' | 'inputSchema' | 'execute' | 'needsApproval'> & {
    inputSchema: z.ZodType | JsonSchema;
    // biome-ignore lint/suspicious/noExplicitAny: the input is that of the tool's own schema, which `tool` checks.
    execute: (input: any, context: ToolContext) => unknown;
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    needsApproval?: boolean | ((input: any) => boolean | Promise<boolean>);
  }
>;

/** An agent in code: the keys of an agent's file, with models of the AI SDK and tools as functions. */
export type AgentDefinition = Readonly<
  Omit<z.input<typeof agentFileSchema>, 'model' | 'tools'> & {
    /** `provider/model`, or a model of the AI SDK; in a list, those after the first are its fallbacks. */
    model: string | Exclude<LanguageModel, string> | readonly (string | Exclude<LanguageModel, string>)[];
    /** Tools by their names; or a list of tools and of the sources that an agent's file may name. */
    tools?: Readonly<Record<string, CodeTool>> | readonly (ServerTool | z.input<typeof toolSourceSchema>)[];
  }
>;
