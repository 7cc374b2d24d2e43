import type { LanguageModel } from 'ai';
import type { z } from 'zod';
import type { agentFileSchema } from '../agents/agent.ts';
import type { toolSourceSchema } from '../agents/tool-sources.ts';
import type { OutputFormat } from '../client/contract.ts';
import type { StandardSchema } from '../client/standard-schema.ts';
import type { JsonSchema, ServerTool, ToolContext } from '../tools/tool.ts';

type InputSchema = z.ZodType | JsonSchema;

/** The input that a tool with this schema gets. One by a JSON Schema is checked, and has no type. */
type InputOf<Schema> = Schema extends z.ZodType ? z.output<Schema> : unknown;

/** A tool of an agent in code whose input has the type of its schema. */
type TypedTool<Schema> = Readonly<
  Omit<CodeTool, 'inputSchema' | 'execute' | 'needsApproval'> & {
    inputSchema: Schema;
    execute: (input: InputOf<Schema>, context: ToolContext) => unknown;
    needsApproval?: boolean | ((input: InputOf<Schema>) => boolean | Promise<boolean>);
  }
>;

/** An agent in code as `defineAgent` takes it: it knows the agent's name and the schemas of its tools. */
export type TypedDefinition<Name extends string, Schemas extends Readonly<Record<string, InputSchema>>> = Readonly<
  Omit<AgentDefinition, 'name' | 'tools'> & {
    name: Name;
    tools?: Readonly<{ [Tool in keyof Schemas]: TypedTool<Schemas[Tool]> }> | ToolList;
  }
>;

type ToolList = readonly (ServerTool | z.input<typeof toolSourceSchema>)[];

/** A tool of an agent in code, without its name. */
export type CodeTool = Readonly<
  Omit<ServerTool, 'name' | 'inputSchema' | 'execute' | 'needsApproval'> & {
    inputSchema: InputSchema;
    // biome-ignore lint/suspicious/noExplicitAny: the input is that of the tool's own schema, which `tool` checks.
    execute: (input: any, context: ToolContext) => unknown;
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    needsApproval?: boolean | ((input: any) => boolean | Promise<boolean>);
  }
>;

/** An agent in code: the keys of an agent's file, with models of the AI SDK and tools as functions. */
export type AgentDefinition = Readonly<
  Omit<z.input<typeof agentFileSchema>, 'model' | 'tools' | 'output'> & {
    /** `provider/model`, or a model of the AI SDK; in a list, those after the first are its fallbacks. */
    model: string | Exclude<LanguageModel, string> | readonly (string | Exclude<LanguageModel, string>)[];
    /** Tools by their names; or a list of tools and of the sources that an agent's file may name. */
    tools?: Readonly<Record<string, CodeTool>> | ToolList;
    /** The result of its runs: a schema of zod or of another library with a Standard JSON Schema, or a format with a JSON Schema. */
    output?: OutputFormat | StandardSchema;
  }
>;
