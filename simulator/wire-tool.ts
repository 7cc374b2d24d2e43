import { z } from 'zod';
import { countText, FRAMING } from './tokens.ts';
import { violation } from './violation.ts';
import type { WireTool } from './wire.ts';

const functionSchema = z.looseObject({
  name: z.string(),
  description: z.string().nullish(),
  parameters: z.unknown().optional(),
});

const objectSchema = z.looseObject({ type: z.literal('object') });

/** Reads a function definition (the inner object in the chat protocol, the tool itself in the Responses protocol). */
export function readFunctionTool(json: unknown): Omit<WireTool, 'digest'> {
  const parsed = functionSchema.safeParse(json);
  if (!parsed.success) {
    const tool = { name: '', description: '', inputSchema: undefined };
    return { tool, tokens: FRAMING.tool, problems: [violation('shape', "Missing required parameter: '{path}.name'.")] };
  }
  const { name, description, parameters } = parsed.data;
  const problems = objectSchema.safeParse(parameters).success
    ? []
    : [violation('shape', `Invalid schema for function '${name}': schema must be a JSON Schema of 'type: "object"'.`)];
  return {
    tool: { name, description: description ?? '', inputSchema: parameters },
    tokens: FRAMING.tool + countText(`${name}\n${description ?? ''}\n${JSON.stringify(parameters) ?? ''}`),
    problems,
  };
}
