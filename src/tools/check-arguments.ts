import { z } from 'zod';
import { unholdableNumber, withPlainNumbers } from '../domain/exact-json.ts';
import { withoutFormats } from '../domain/run/output-check.ts';
import { RESULT_TOOL } from '../domain/run/output-format.ts';
import type { Json } from '../domain/transcript/message.ts';
import { checkInTime } from './check-output.ts';
import { isServerTool, type JsonSchema, type Tool } from './tool.ts';

/**
 * Why the tool is not called with these arguments, in words for the model. Null: it may be. A result by `final_result`
 * is checked with the answer.
 * @param input an object
 */
export async function argumentsProblem(tool: Tool, input: Json, signal: AbortSignal): Promise<string | null> {
  if (tool.name === RESULT_TOOL) return null;
  const tooLong = isServerTool(tool) && tool.takesWrittenNumbers !== true ? numberProblem(input) : null;
  if (tooLong !== null || tool.checksInput === true) return tooLong;
  const value = withPlainNumbers(input) as Json;
  const { inputSchema } = tool;
  const problem =
    inputSchema instanceof z.ZodType
      ? await ofZod(inputSchema, value)
      : await ofJsonSchema(inputSchema, value, signal).catch(() => null);
  return problem === null ? null : `Invalid input:\n${problem}`;
}

/** Why the arguments cannot be given to code that computes with them. */
export function numberProblem(input: unknown): string | null {
  const found = unholdableNumber(input);
  if (found === null) return null;
  return (
    `Not called: ${found.path} is the number ${found.digits}, which has more digits than the tool can take. ` +
    'Send it as a string.'
  );
}

async function ofZod(schema: z.ZodType, value: Json): Promise<string | null> {
  const { error } = await schema.safeParseAsync(value);
  return error === undefined ? null : z.prettifyError(error);
}

const checkable = new WeakMap<JsonSchema, JsonSchema>();

/** @throws errors of the validator, for a schema that is none: its tool takes anything */
async function ofJsonSchema(schema: JsonSchema, value: Json, signal: AbortSignal): Promise<string | null> {
  const cached = checkable.get(schema) ?? (withoutFormats(withPlainNumbers(schema)) as JsonSchema);
  checkable.set(schema, cached);
  const checked = await checkInTime(cached, value, signal);
  return 'problem' in checked ? checked.problem : null;
}
