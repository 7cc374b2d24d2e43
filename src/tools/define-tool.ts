import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { toObjectSchema } from '../domain/object-schema.ts';
import type { JsonSchema, ServerTool, Tool, ToolContext } from './tool.ts';

type Definition<Schema, Input> = Omit<
  Tool,
  'inputSchema' | 'execute' | 'needsApproval' | 'checksInput' | 'takesWrittenNumbers' | 'resumes'
> &
  Readonly<{
    inputSchema: Schema;
    execute: (input: Input, context: ToolContext) => unknown;
    needsApproval?: boolean | ((input: Input) => boolean | Promise<boolean>);
  }>;

/** The argument of a module's function that returns tools. */
export type ToolModuleContext = Readonly<{
  agent: string;
  /** The root of the workspace tools, absolute. */
  workspaceDir: string;
}>;

/**
 * A tool for agents.
 * - `execute` and `needsApproval` get the parsed input, with defaults and transforms; the transcript keeps the model's.
 * - Invalid input is refused, and the model reads why.
 * - With a JSON Schema (an object) the input is checked before the call, and passed on as it came.
 * @throws BatonError `config_invalid` for a schema that is not one of an object
 */
export function defineTool<Schema extends z.ZodType>(definition: Definition<Schema, z.output<Schema>>): ServerTool;
export function defineTool(definition: Definition<JsonSchema, unknown>): ServerTool;
export function defineTool(definition: Definition<z.ZodType | JsonSchema, never>): ServerTool {
  refuseNoTool(definition);
  const { inputSchema, execute, needsApproval, ...rest } = definition;
  const run = execute as (input: unknown, context: ToolContext) => unknown;
  const needs = needsApproval as Tool['needsApproval'];
  if (!(inputSchema instanceof z.ZodType)) {
    const approval = needs === undefined ? {} : { needsApproval: needs };
    return { ...rest, ...approval, inputSchema, execute: async (...call) => run(...call) };
  }
  return {
    ...rest,
    ...(needs !== undefined && { needsApproval: typeof needs === 'function' ? ofParsed(inputSchema, needs) : needs }),
    inputSchema: ofZod(rest.name, inputSchema),
    checksInput: true,
    execute: async (input, context) => {
      const parsed = await inputSchema.safeParseAsync(input);
      if (!parsed.success) throw new BatonError('invalid_request', `Invalid input:\n${z.prettifyError(parsed.error)}`);
      return run(parsed.data, context);
    },
  };
}

/** A program without types may leave all of it out. @throws BatonError */
function refuseNoTool(definition: unknown): void {
  if (typeof definition !== 'object' || definition === null) {
    const example = 'defineTool({ name, description, inputSchema, execute })';
    throw new BatonError('config_invalid', `defineTool expects an object, as in ${example}`);
  }
  const { name, inputSchema, execute } = definition as Readonly<Record<string, unknown>>;
  const refuse = (key: string, words: string): never => {
    throw new BatonError('config_invalid', `tool ${String(name)}: ${key}: expected ${words}`);
  };
  if (typeof inputSchema !== 'object' || inputSchema === null) {
    refuse('inputSchema', 'a schema of zod 4 or a JSON Schema');
  }
  if (typeof execute !== 'function') refuse('execute', 'a function');
}

/** Invalid input needs no approval: it is refused anyway. */
function ofParsed(schema: z.ZodType, needs: (input: unknown) => boolean | Promise<boolean>) {
  return async (input: unknown): Promise<boolean> => {
    const parsed = await schema.safeParseAsync(input);
    return parsed.success && needs(parsed.data);
  };
}

function ofZod(name: string, schema: z.ZodType): JsonSchema {
  const { $schema: _dialect, ...converted } = z.toJSONSchema(schema, { io: 'input' });
  const read = toObjectSchema(converted);
  if ('schema' in read) return read.schema;
  throw new BatonError('config_invalid', `the input schema of tool ${name} is not one of an object`);
}
