import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CancelTaskRequestSchema,
  ErrorCode,
  GetTaskPayloadRequestSchema,
  GetTaskRequestSchema,
  McpError,
  type Task,
} from '@modelcontextprotocol/sdk/types.js';
import { BatonError } from '../../domain/errors.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { readRunBody } from '../../http/bodies/run-body.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { findRun } from '../../store/runs.ts';
import type { RunRef } from '../run-details.ts';
import { toResult } from './agent-tools.ts';
import { followTask } from './run-task.ts';

type RunBody = Awaited<ReturnType<typeof readRunBody>>;

/** Pause that a client should make between two questions about a task. */
const POLL_INTERVAL_MS = 1_000;

/** Capabilities that the server announces, so that clients ask for tasks. */
export const TASK_CAPABILITIES = { cancel: {}, requests: { tools: { call: {} } } };

export type TaskDeps = Readonly<{
  deps: HttpDeps;
  tenantId: string;
  cancel: (runId: string) => Promise<void>;
  /** Aborts when the client is gone. */
  gone: AbortSignal;
}>;

/** The tasks of MCP are runs: any process can tell of them, and they are kept as long as their session. */
export function serveTasks(server: Server, { deps, tenantId, cancel, gone }: TaskDeps): void {
  const find = async (taskId: string): Promise<RunRef> => {
    const runId = parseId('run', taskId);
    try {
      if (runId !== null) return { tenantId, runId, sessionId: (await findRun(deps.db, tenantId, runId)).session_id };
    } catch (error) {
      if (!(error instanceof BatonError && error.code === 'not_found')) throw error;
    }
    throw new McpError(ErrorCode.InvalidParams, `there is no task ${JSON.stringify(taskId)}`);
  };
  server.setRequestHandler(GetTaskRequestSchema, async ({ params }) => readTaskOf(deps, await find(params.taskId)));
  server.setRequestHandler(GetTaskPayloadRequestSchema, async ({ params }, { signal }) => {
    const ref = await find(params.taskId);
    await followTask(deps, ref, AbortSignal.any([signal, gone]), () => undefined);
    const related = { 'io.modelcontextprotocol/related-task': { taskId: params.taskId } };
    return { ...toResult(await readBody(deps, ref)), _meta: related };
  });
  server.setRequestHandler(CancelTaskRequestSchema, async ({ params }) => {
    const ref = await find(params.taskId);
    const { status } = await readTaskOf(deps, ref);
    if (status === 'completed' || status === 'failed' || status === 'cancelled') {
      throw new McpError(ErrorCode.InvalidParams, `task ${params.taskId} has ended already: ${status}`);
    }
    await cancel(ref.runId);
    return readTaskOf(deps, ref);
  });
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
    statusMessage: `run ${run.status}, ${run.steps} steps`,
  };
}

const readBody = async ({ db }: HttpDeps, { tenantId, runId }: RunRef): Promise<RunBody> =>
  readRunBody(db, tenantId, await findRun(db, tenantId, runId));

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
