import { z } from 'zod';
import type { Json } from '../../domain/transcript/message.ts';
import type { InputRequests } from './unfinished.ts';

/** https://modelcontextprotocol.io/seps/2663-tasks-extension */
export const TASK_EXTENSION = 'io.modelcontextprotocol/tasks';
/** `tasks/result` is of 2025-11-25 alone: later a task that has ended comes with its result. */
export type TaskMethod = 'tasks/get' | 'tasks/result' | 'tasks/cancel' | 'tasks/update';

/** A pause that a server names is kept to within these. */
const MIN_POLL_INTERVAL_MS = 100;
const MAX_POLL_INTERVAL_MS = 30_000;
const DEFAULT_POLL_INTERVAL_MS = 1_000;

/** A call that goes on at the server, as both revisions tell it. */
export type McpTask = Readonly<{
  taskId: string;
  /** `working`, or a word that nobody knows yet. */
  status: string;
  pollIntervalMs: number;
  words: string;
  /** Absent in 2025-11-25, and while the task goes on. */
  result?: unknown;
  /** The words of the error with which the call failed. */
  failure?: string;
  /** What the server asks for before it goes on. Absent in 2025-11-25. */
  requests: InputRequests;
}>;

const orNothing = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
const taskSchema = z.looseObject({
  taskId: z.string().min(1),
  status: orNothing(z.string()),
  statusMessage: orNothing(z.string()),
  pollIntervalMs: orNothing(z.number()),
  pollInterval: orNothing(z.number()),
  result: z.unknown().optional(),
  error: orNothing(z.looseObject({ message: z.string() })),
  inputRequests: orNothing(z.record(z.string(), z.unknown())),
});
const createdSchema = z.union([
  taskSchema.extend({ resultType: z.literal('task') }),
  z.looseObject({ task: taskSchema }).transform(({ task }) => task),
]);

/** The task that a call has become. Null: the answer is no task. Pure. */
export function readCreatedTask(answer: unknown): McpTask | null {
  const { data } = createdSchema.safeParse(answer);
  return data === undefined ? null : toTask(data);
}

/** The answer to `tasks/get`. Null: it is no task. Pure. */
export function readTask(answer: unknown, taskId: string): McpTask | null {
  const { data } = taskSchema.extend({ taskId: z.string().catch(taskId) }).safeParse(answer);
  return data === undefined ? null : toTask(data);
}

function toTask(data: z.infer<typeof taskSchema>): McpTask {
  const intervalMs = data.pollIntervalMs ?? data.pollInterval ?? DEFAULT_POLL_INTERVAL_MS;
  const { result = null, error } = data;
  return {
    taskId: data.taskId,
    status: data.status ?? 'working',
    pollIntervalMs: Math.min(Math.max(intervalMs, MIN_POLL_INTERVAL_MS), MAX_POLL_INTERVAL_MS),
    words: data.statusMessage ?? '',
    ...(result !== null && { result }),
    ...(error !== undefined && { failure: error.message }),
    requests: data.inputRequests ?? {},
  };
}

/** How another worker finds the task again. */
export const toWork = ({ taskId, pollIntervalMs }: McpTask): Json => ({ taskId, pollIntervalMs });

/** The task that an earlier worker has noted. Null: none, or one that nobody can read. Pure. */
export function readWork(work: Json | null): McpTask | null {
  const { data } = taskSchema.safeParse(work);
  return data === undefined ? null : toTask(data);
}
