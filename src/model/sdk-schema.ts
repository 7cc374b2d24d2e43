import { asSchema, jsonSchema, type Schema } from 'ai';
import { z } from 'zod';
import type { Tool } from '../tools/tool.ts';

const sdkSchemas = new WeakMap<Tool['inputSchema'], Schema<unknown>>();

/**
 * The schema of a tool's input as the SDK takes it: the same object for the same schema. The SDK works out the JSON
 * Schema of a zod one for every request, unless it is given the same object again.
 */
export function toSdkSchema(schema: Tool['inputSchema']): Schema<unknown> {
  const known = sdkSchemas.get(schema);
  if (known !== undefined) return known;
  const made: Schema<unknown> = schema instanceof z.ZodType ? asSchema(schema) : jsonSchema(schema);
  sdkSchemas.set(schema, made);
  return made;
}
