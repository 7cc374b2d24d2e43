import { TOOL_RESULT } from './model.ts';

export const TOOL_DESCRIPTION = 'Looks at a file.';
export const TOOL_SCHEMA = {
  type: 'object',
  properties: { path: { type: 'string' } },
  required: ['path'],
  additionalProperties: false,
} as const;

/** The tool as an agent has it. It is declared nothing: its every call goes into the ledger before it starts and after. */
export const LOOK_TOOL = {
  name: 'look',
  description: TOOL_DESCRIPTION,
  inputSchema: TOOL_SCHEMA,
  execute: async () => TOOL_RESULT,
} as const;
