import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  type Result,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { RunRef } from '../run-details.ts';
import { toResult } from './agent-tools.ts';
import { aboutTask, findTask, POLL_INTERVAL_MS, type RunBody, readBody, statusWords, type TaskDeps } from './tasks.ts';

/** https://modelcontextprotocol.io/seps/2663-tasks-extension */
export const TASK_EXTENSION = 'io.modelcontextprotocol/tasks';

const declaringSchema = z.looseObject({
  [CLIENT_CAPABILITIES_META_KEY]: z.looseObject({
    extensions: z.looseObject({ [TASK_EXTENSION]: z.looseObject({}) }),
  }),
});

/** Whether the client of this request takes a task in place of a result. */
export const declaresTasks = ({ mcpReq }: ServerContext): boolean => declaringSchema.safeParse(mcpReq.envelope).success;

/**
 * The tasks of 2026-07-28 are runs, as those of `serveTasks`: here the server decides what becomes a task, which is each
 * call of a client that takes tasks, and the state of an ended task has its result.
 */
export function serveTaskExtension(server: Server, taskDeps: TaskDeps): void {
  const { deps, cancel } = taskDeps;
  const find = (taskId: string, context: ServerContext): Promise<RunRef> => {
    if (declaresTasks(context)) return findTask(taskDeps, taskId);
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASK_EXTENSION]: {} } } });
  };
  server.setRequestHandler('tasks/get', aboutTask, async ({ taskId }, context) =>
    readExtensionTask(deps, await find(taskId, context)),
  );
  server.setRequestHandler('tasks/cancel', aboutTask, async ({ taskId }, context) => {
    const ref = await find(taskId, context);
    await cancel(ref.runId);
    return {};
  });
  // A run asks its client for nothing: people answer what it waits for by Baton's API.
  server.setRequestHandler('tasks/update', aboutTask, async ({ taskId }, context) => {
    await find(taskId, context);
    return {};
  });
}

/** The answer to a call that has become a task. */
export async function readCreatedTask(deps: HttpDeps, ref: RunRef): Promise<Result> {
  const run = await readBody(deps, ref);
  return { ...toTask(run), status: stateOf(run).status, resultType: 'task' };
}

/** The run as a task, with its result if it has ended. */
async function readExtensionTask(deps: HttpDeps, ref: RunRef): Promise<Result> {
  const run = await readBody(deps, ref);
  return { ...toTask(run), ...stateOf(run) };
}

function toTask(run: RunBody): Result {
  return {
    taskId: run.id,
    createdAt: run.createdAt,
    lastUpdatedAt: run.finishedAt ?? run.startedAt ?? run.createdAt,
    // No limit: the task is kept as long as its session.
    ttlMs: null,
    pollIntervalMs: POLL_INTERVAL_MS,
    statusMessage: wordsOf(run),
  };
}

function wordsOf(run: RunBody): string {
  if (run.status !== 'requires_action') return statusWords(run);
  const calls = run.requiredActions.map(({ toolName, id }) => `${toolName} (${id})`).join(', ');
  return `waits until a person has answered: ${calls}`;
}

/** `failed` is for errors of the protocol alone: a run that failed has a result that says so. */
function stateOf(run: RunBody): Readonly<{ status: 'working' | 'completed' | 'cancelled'; result?: Result }> {
  switch (run.status) {
    case 'cancelled':
      return { status: 'cancelled' };
    case 'completed':
    case 'failed':
    case 'incomplete':
      return { status: 'completed', result: toResult(run) };
    default:
      return { status: 'working' };
  }
}
