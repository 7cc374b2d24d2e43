import type { ErrorRecord } from '../../errors.ts';

/** Refusals that come again with every later message, until somebody changes the session. */
const LASTING: readonly string[] = ['invalid_request', 'malformed_history'];

/** What a person can do about a refusal without a remedy. */
export const WAY_OUT =
  'Every later message would be refused alike. Go back to an earlier message (POST /v1/sessions/{id}/revert), leave a tool out (`exclude` in the agent, then POST /v1/sessions/{id}/agent), or go on with another model (the same, with `model`).';

/** Names the way out, and the refused tool, of which a provider may say only its place. */
export function withWayOut(error: ErrorRecord, tools: readonly Readonly<{ name: string }>[]): ErrorRecord {
  if (!LASTING.includes(error.code)) return error;
  const index = /\btools[.[](\d+)/.exec(error.message)?.[1];
  const tool = index === undefined ? undefined : tools[Number(index)]?.name;
  const named = tool === undefined || error.message.includes(tool) ? '' : ` The tool is ${tool}.`;
  return { ...error, message: `${error.message}${named} ${WAY_OUT}` };
}
