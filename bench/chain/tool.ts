import { textOf } from './task.ts';

export const TOOL_DESCRIPTION = 'Looks at a file.';
export const TOOL_SCHEMA = {
  type: 'object',
  properties: { path: { type: 'string' }, chars: { type: 'number' } },
  required: ['path', 'chars'],
  additionalProperties: false,
} as const;

export async function look(input: unknown): Promise<string> {
  return textOf((input as { chars: number }).chars);
}

/**
 * The tool as an agent has it. It declares no replay policy, so each call is written to the database before it starts
 * and after.
 */
export const LOOK_TOOL = {
  name: 'look',
  description: TOOL_DESCRIPTION,
  inputSchema: TOOL_SCHEMA,
  execute: look,
} as const;
