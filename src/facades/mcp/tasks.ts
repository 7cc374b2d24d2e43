import { ProtocolError, ProtocolErrorCode, type Server, type Task } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { readRunBody } from '../../http/bodies/run-body.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { findAskingRun } from '../../store/session/asking-runs.ts';
import { findRun } from '../../store/session/runs.ts';
import type { RunRef } from '../run-details.ts';
import { toResult } from './agent-tools.ts';
import { followTask } from './run-task.ts';

export type RunBody = Awaited<ReturnType<typeof readRunBody>>;

/** Pause that a client should make between two questions about a task. */
export const POLL_INTERVAL_MS = 1_000;

/** Capabilities that the server announces, so that clients ask for tasks. */
export const TASK_CAPABILITIES = { cancel: {}, requests: { tools: { call: {} } } };

export type TaskDeps = Readonly<{
  deps: HttpDeps;
  tenantId: string;
  cancel: (runId: string) => Promise<void>;
  /** Aborts when the client is gone. */
  gone: AbortSignal;
}>;

/** The parameters of a request about a task. */
export const aboutTask = { params: z.looseObject({ taskId: z.string() }) };

/**
 * The tasks of 2025-11-25 are runs: any process can tell of them, and they are kept as long as their session. A client
 * asks for them, and `tasks/result` waits for the end.
 */
export function serveTasks(server: Server, taskDeps: TaskDeps): void {
  const { deps, cancel, gone } = taskDeps;
  server.setRequestHandler('tasks/get', aboutTask, async ({ taskId }) =>
    readTaskOf(deps, await findTask(taskDeps, taskId)),
  );
  server.setRequestHandler('tasks/result', aboutTask, async ({ taskId }, { mcpReq }) => {
    const ref = await findTask(taskDeps, taskId);
    const signal = AbortSignal.any([mcpReq.signal, gone]);
    await followTask(deps, ref, { signal, tell: () => undefined, limitMs: 0 });
    const related = { 'io.modelcontextprotocol/related-task': { taskId } };
    return { ...toResult(await readBody(deps, ref)), _meta: related };
  });
  server.setRequestHandler('tasks/cancel', aboutTask, async ({ taskId }) => {
    const ref = await findTask(taskDeps, taskId);
    const { status } = await readTaskOf(deps, ref);
    if (status === 'completed' || status === 'failed' || status === 'cancelled') {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `task ${taskId} has ended already: ${status}`);
    }
    await cancel(ref.runId);
    return readTaskOf(deps, ref);
  });
}

/** @throws BatonError `not_found` */
export const findRunRef = async ({ db }: HttpDeps, tenantId: string, runId: string): Promise<RunRef> => ({
  ...{ tenantId, runId, sessionId: (await findRun(db, tenantId, runId)).session_id },
});

/** @throws ProtocolError if the tenant has no such run */
export async function findTask({ deps, tenantId }: TaskDeps, taskId: string): Promise<RunRef> {
  const runId = parseId('run', taskId);
  try {
    if (runId !== null) return await findRunRef(deps, tenantId, runId);
  } catch (error) {
    if (!(error instanceof BatonError && error.code === 'not_found')) throw error;
  }
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `there is no task ${JSON.stringify(taskId)}`);
}

/** The run as a task. */
export async function readTaskOf(deps: HttpDeps, ref: RunRef): Promise<Task> {
  const run = await readBody(deps, ref);
  return {
    taskId: formatId('run', ref.runId),
    status: statusOf(run),
    // No limit: the task is kept as long as its session.
    ttl: null,
    createdAt: run.createdAt,
    lastUpdatedAt: run.finishedAt ?? run.startedAt ?? run.createdAt,
    pollInterval: POLL_INTERVAL_MS,
    statusMessage: statusWords(run),
  };
}

export const statusWords = ({ status, steps }: RunBody): string => `run ${status}, ${steps} steps`;

export const readBody = async ({ db }: HttpDeps, { tenantId, runId }: RunRef): Promise<RunBody> =>
  readRunBody(db, tenantId, await findAskingRun(db, tenantId, runId));

function statusOf({ status }: RunBody): Task['status'] {
  switch (status) {
    case 'requires_action':
      return 'input_required';
    case 'failed':
    case 'cancelled':
      return status;
    case 'completed':
    case 'incomplete':
      return 'completed';
    default:
      return 'working';
  }
}
