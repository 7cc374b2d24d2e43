import { asSchema, jsonSchema, type Schema } from 'ai';
import { z } from 'zod';
import type { Tool } from '../tools/tool.ts';

const sdkSchemas = new WeakMap<Tool['inputSchema'], Schema<unknown>>();

/** The same object for the same schema: for a new one the SDK derives the JSON Schema again in every request. */
export function toSdkSchema(schema: Tool['inputSchema']): Schema<unknown> {
  const known = sdkSchemas.get(schema);
  if (known !== undefined) return known;
  const made: Schema<unknown> = schema instanceof z.ZodType ? asSchema(schema) : jsonSchema(schema);
  sdkSchemas.set(schema, made);
  return made;
}
