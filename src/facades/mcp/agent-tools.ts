import type { CallToolResult, Tool } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { AgentSet } from '../../agents/agent.ts';
import { MAX_SESSION_REF_CHARS } from '../../api/fields.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseSessionRef, type SessionRef } from '../../domain/run/session-ref.ts';
import type { readRunBody } from '../../http/bodies/run-body.ts';
import { parseInput } from '../../platform/parse-input.ts';

/** Of one task, as of a message. */
const MAX_TASK_CHARS = 500_000;

const inputSchema = z.strictObject({
  task: z.string().min(1).max(MAX_TASK_CHARS).describe('Task of the agent, with all that it has to know.'),
  session: z
    .string()
    .max(MAX_SESSION_REF_CHARS)
    .optional()
    .describe(
      'Session in which the agent goes on: that of an earlier call (`ses_…`), or `key:` and its key. Default: a new session.',
    ),
});

/** The agents as tools of MCP. */
export function toolsOfAgents(agents: AgentSet): Tool[] {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(inputSchema, { io: 'input' });
  return agents.names().map((name) => ({
    name,
    description: agents.get(name).description ?? `Gives a task to the agent ${name} and returns its answer.`,
    inputSchema: schema as Tool['inputSchema'],
    execution: { taskSupport: 'optional' },
  }));
}

export type AgentTask = Readonly<{ agent: string; task: string; session: SessionRef | null }>;

/** @throws BatonError `invalid_request`, `not_found`, `agent_not_found` */
export function readTask(agents: AgentSet, agent: string, given: unknown): AgentTask {
  agents.get(agent);
  const { task, session: name } = parseInput(inputSchema, given);
  const session = name === undefined ? null : parseSessionRef(name);
  if (name !== undefined && session === null) {
    throw new BatonError('not_found', `${JSON.stringify(name)} is no session: ses_… or key:…`);
  }
  return { agent, task, session };
}

type RunBody = Awaited<ReturnType<typeof readRunBody>>;

/** The end of a run, as its caller's model reads it. */
export function toResult(run: RunBody): CallToolResult {
  const { id, sessionId, status, steps } = run;
  return {
    content: [{ type: 'text', text: textOf(run) }],
    structuredContent: { session: sessionId, run: id, status, steps },
    ...(status === 'failed' && { isError: true }),
  };
}

function textOf({ sessionId, status, output, requiredActions, error, reason }: RunBody): string {
  const again = `Call the tool again with session ${sessionId} to go on.`;
  const text = output?.text ?? '';
  switch (status) {
    case 'completed':
      return text;
    case 'requires_action': {
      const calls = requiredActions.map(({ toolName, id }) => `${toolName} (${id})`).join(', ');
      return `The agent waits until a person has answered: ${calls}. ${again}`;
    }
    case 'failed':
      return `The agent failed: ${error?.message ?? 'for an unknown cause'}. ${again}`;
    case 'cancelled':
      return `The agent was stopped. ${again}`;
    default:
      return `${text}\n\nThe agent ended before it was done: ${reason ?? status}. ${again}`.trim();
  }
}
