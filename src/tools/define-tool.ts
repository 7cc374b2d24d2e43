import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import type { JsonSchema, Tool, ToolContext } from './tool.ts';

type Definition<Schema, Input> = Omit<Tool, 'inputSchema' | 'execute'> &
  Readonly<{
    inputSchema: Schema;
    execute: (input: Input, context: ToolContext) => unknown;
  }>;

/** What a module that exports a function is told, when that is asked for the tools. */
export type ToolModuleContext = Readonly<{
  /** The agent that the tools are for. */
  agent: string;
  /** The root of the workspace tools, absolute. */
  workspaceDir: string;
}>;

/**
 * A tool for agents. `execute` gets the input as its schema parses it, defaults and transforms included; the transcript
 * keeps what the model wrote. Input that does not fit is refused, and the model reads why. A JSON Schema (an object) is
 * shown to the model only: `execute` has to check its input by itself.
 * @throws BatonError `config_invalid` for a schema that is not one of an object
 */
export function defineTool<Schema extends z.ZodType>(definition: Definition<Schema, z.output<Schema>>): Tool;
export function defineTool(definition: Definition<JsonSchema, unknown>): Tool;
export function defineTool({ inputSchema, execute, ...rest }: Definition<z.ZodType | JsonSchema, never>): Tool {
  const run = execute as (input: unknown, context: ToolContext) => unknown;
  if (!(inputSchema instanceof z.ZodType)) return { ...rest, inputSchema, execute: async (...call) => run(...call) };
  return {
    ...rest,
    inputSchema: toObjectSchema(rest.name, inputSchema),
    execute: async (input, context) => {
      const parsed = await inputSchema.safeParseAsync(input);
      if (!parsed.success) throw new BatonError('invalid_request', `Invalid input:\n${z.prettifyError(parsed.error)}`);
      return run(parsed.data, context);
    },
  };
}

function toObjectSchema(name: string, schema: z.ZodType): JsonSchema {
  const { $schema: _dialect, type, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  if (type === 'object') return { type, ...rest };
  throw new BatonError('config_invalid', `the input schema of tool ${name} is not one of an object`);
}
