import { asSchema, jsonSchema, type Schema, type ToolSet } from 'ai';
import { z } from 'zod';
import { toObjectSchema } from '../domain/object-schema.ts';
import type { Tool } from '../tools/tool.ts';

const sdkSchemas = new WeakMap<Tool['inputSchema'], Schema<unknown>>();

/** The same object for the same schema: for a new one the SDK derives the JSON Schema again in every request. */
function toSdkSchema(schema: Tool['inputSchema']): Schema<unknown> {
  const known = sdkSchemas.get(schema);
  if (known !== undefined) return known;
  // Without a validator: arguments are checked before a call starts, by `argumentsProblem`.
  const given = schema instanceof z.ZodType ? asSchema(schema).jsonSchema : schema;
  const read = toObjectSchema(given);
  const made: Schema<unknown> = jsonSchema('schema' in read ? read.schema : given);
  sdkSchemas.set(schema, made);
  return made;
}

/** Tools as a model is offered them. A step and a summarizer send the same bytes, for the provider's cache. */
export function toSdkTools(tools: readonly Tool[]): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, inputSchema }) => [
      name,
      { type: 'dynamic' as const, description, inputSchema: toSdkSchema(inputSchema) },
    ]),
  );
}
