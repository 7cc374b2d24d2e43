import type { CallToolResult, Tool } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { AgentSet } from '../../agents/agent.ts';
import { MAX_SESSION_REF_CHARS } from '../../api/fields.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseId } from '../../domain/ids.ts';
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

/** The tool that goes on waiting for a run, for clients that give up a call after a minute. */
export const CONTINUE_TOOL = 'continue_task';

const continueSchema = z.strictObject({
  run: z.string().max(MAX_SESSION_REF_CHARS).describe('The run to wait for (`run_…`), as an earlier call named it.'),
});

/** The agents as tools of MCP, after the one that goes on waiting. */
export function toolsOfAgents(agents: AgentSet): Tool[] {
  const names = agents.names();
  const agentTools = names.map(
    (name): Tool => ({
      name,
      description: agents.get(name).description ?? `Gives a task to the agent ${name} and returns its answer.`,
      inputSchema: toInputSchema(inputSchema),
      execution: { taskSupport: 'optional' },
    }),
  );
  return hasContinueTool(agents) ? [...agentTools, CONTINUE] : agentTools;
}

/** False: an agent has the name of the tool. */
export const hasContinueTool = (agents: AgentSet): boolean => !agents.names().includes(CONTINUE_TOOL);

function toInputSchema(schema: z.ZodType): Tool['inputSchema'] {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest as Tool['inputSchema'];
}

const CONTINUE: Tool = {
  name: CONTINUE_TOOL,
  description:
    'Waits for the answer of an agent that is still at work, and returns it. Call it with the run that an earlier call named, as often as it takes.',
  inputSchema: toInputSchema(continueSchema),
  annotations: { readOnlyHint: true },
};

/** The id of the run to wait for. @throws BatonError `invalid_request`, `not_found` */
export function readContinued(given: unknown): string {
  const { run } = parseInput(continueSchema, given);
  const runId = parseId('run', run);
  if (runId === null) throw new BatonError('not_found', `${JSON.stringify(run)} is no run: run_…`);
  return runId;
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

/**
 * The state of a run, as its caller's model reads it: the answer, then the ids, which clients without structured results
 * read as JSON.
 */
export function toResult(run: RunBody): CallToolResult {
  const { id, sessionId, status, steps } = run;
  const structuredContent = { session: sessionId, run: id, status, steps };
  return {
    content: [
      { type: 'text', text: textOf(run) },
      { type: 'text', text: JSON.stringify(structuredContent) },
    ],
    structuredContent,
    ...(status === 'failed' && { isError: true }),
  };
}

function textOf({ id, sessionId, status, output, requiredActions, error, reason }: RunBody): string {
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
    case 'queued':
    case 'running':
    case 'cancelling':
      return `The agent is still at work in run ${id}. Call the tool ${CONTINUE_TOOL} with run ${id} to wait for its answer.`;
    case 'incomplete':
      return `${text}\n\nThe agent ended before it was done: ${reason ?? status}. ${again}`.trim();
  }
}
