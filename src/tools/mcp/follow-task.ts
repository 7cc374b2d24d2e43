import { setTimeout as pause } from 'node:timers/promises';
import { BatonError } from '../../domain/errors.ts';
import type { Json } from '../../domain/transcript/message.ts';
import { backOffMs } from '../../platform/back-off.ts';
import { InputNeeded } from '../input-needed.ts';
import type { OutsideWork } from '../tool.ts';
import { endOf, toToolError, UNKNOWN } from './call-end.ts';
import type { McpConnection, McpLink } from './connection.ts';
import { failureOf } from './failure.ts';
import { HttpRefusal } from './refusal.ts';
import type { TaskParams } from './requests.ts';
import { type McpTask, readTask, readWork, type TaskMethod, toWork } from './task.ts';
import { type InputRequests, isEmpty, type Resumption, toQuestion, wordsOfRequests } from './unfinished.ts';

/** Pauses after questions without an answer. */
const RETRY_BASE_MS = 250;
const RETRY_CAP_MS = 10_000;
/** For a server to take a cancel: a tool has little time after its abort. */
const CANCEL_WITHIN_MS = 3_000;
/** The same for a task whose call no longer runs: its run ends after that. */
const CANCEL_NOTED_WITHIN_MS = 10_000;

type Followed = Readonly<{
  server: string;
  connection: McpConnection;
  signal: AbortSignal;
  /** What a person has answered since the task asked for it. */
  responses: Resumption['inputResponses'];
}>;

/** The server does not know the task, so nobody can say how it ended. */
export class TaskForgotten extends BatonError {
  constructor(server: string, cause: unknown) {
    const words = cause instanceof Error ? ` (${cause.message})` : '';
    super('transport', `The MCP server ${server} does not know the task of the call any more${words}. ${UNKNOWN}`, {
      cause,
    });
  }
}

/**
 * Notes the task beside the call, and waits for its end. A task that nobody goes on with is cancelled at the server.
 * @returns the result of the call, unparsed
 * @throws InputNeeded; TaskForgotten; errors of which the model reads the message
 */
export async function followTask(
  followed: Followed,
  startedTask: McpTask,
  outside: OutsideWork | undefined,
): Promise<unknown> {
  let isNoted = outside !== undefined && outside.earlier !== null;
  try {
    if (outside !== undefined && !isNoted) isNoted = await outside.note(toWork(startedTask));
    if (!isEmpty(followed.responses)) await respond(followed, startedTask);
    return await untilEnded(followed, startedTask);
  } catch (error) {
    if (error instanceof InputNeeded) throw error;
    const goesOn = isNoted && outside?.isHandedOver() === true;
    if (followed.signal.aborted && !goesOn) await stopTask(followed.connection, startedTask.taskId);
    throw toToolError(followed.server, error, followed.signal);
  }
}

async function untilEnded(followed: Followed, startedTask: McpTask): Promise<unknown> {
  const { server, connection, signal } = followed;
  for (let task = startedTask; ; task = await askForTask(followed, startedTask)) {
    switch (task.status) {
      case 'completed':
      case 'failed':
        if (task.failure !== undefined) throw new BatonError('invalid_request', task.failure);
        return task.result ?? (await ask(followed, 'tasks/result', { taskId: task.taskId }));
      case 'cancelled':
        throw new BatonError(
          'invalid_request',
          `The MCP server ${server} has cancelled the call. ${task.words}`.trim(),
        );
      case 'input_required':
        await askFor(connection, task.taskId, unanswered(followed, task));
    }
    await pause(task.pollIntervalMs, undefined, { signal });
  }
}

/** The requests that no person has answered. A server may show answered ones for a while. Null: all are answered. */
function unanswered({ responses }: Followed, { requests }: McpTask): InputRequests | null {
  if (isEmpty(requests)) return {};
  const open = Object.entries(requests).filter(([key]) => !(key in responses));
  return open.length === 0 ? null : Object.fromEntries(open);
}

/** @throws InputNeeded; BatonError if no person is asked for that, and the task is cancelled */
async function askFor(connection: McpConnection, taskId: string, requests: InputRequests | null): Promise<void> {
  if (requests === null) return;
  const question = toQuestion(requests, { taskId });
  if (question !== null) throw new InputNeeded(question);
  await stopTask(connection, taskId);
  throw new BatonError('invalid_request', wordsOfRequests(requests));
}

/** Gives the task what it has asked for. To give it twice is to give it once: the server goes by the keys. */
async function respond(followed: Followed, { taskId }: McpTask): Promise<void> {
  const { server, signal, responses: inputResponses } = followed;
  await ask(followed, 'tasks/update', { taskId, inputResponses }).catch((error: unknown) => {
    throw signal.aborted ? error : new TaskForgotten(server, error);
  });
}

async function askForTask(followed: Followed, { taskId }: McpTask): Promise<McpTask> {
  const { server, signal } = followed;
  const answer = await ask(followed, 'tasks/get', { taskId }).catch((error: unknown) => {
    throw signal.aborted ? error : new TaskForgotten(server, error);
  });
  const task = readTask(answer, taskId);
  if (task !== null) return task;
  throw new BatonError(
    'transport',
    `The MCP server ${server} tells of the task of the call what is no task. ${UNKNOWN}`,
  );
}

/**
 * Asks until the server answers: a task outlives connections.
 * @throws errors with which the server answered, and any error once the call is aborted
 */
async function ask(
  { connection, signal }: Pick<Followed, 'connection' | 'signal'>,
  method: TaskMethod,
  params: TaskParams,
): Promise<unknown> {
  for (let failures = 0; ; failures += 1) {
    let link: McpLink | null = null;
    try {
      link = await connection.open(signal);
      return await link.askAboutTask(method, params, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const end = link === null ? 'unsent' : await endOf(link, error, signal);
      if (end === 'answered' && !mayAnswerLater(error, signal)) throw error;
      if (end !== 'answered') await link?.drop();
    }
    await pause(backOffMs(failures, RETRY_BASE_MS, RETRY_CAP_MS), undefined, { signal });
  }
}

function mayAnswerLater(error: unknown, signal: AbortSignal): boolean {
  if (error instanceof HttpRefusal) return error.status >= 500 || error.status === 429;
  const failure = failureOf(error, signal);
  return failure === 'stopped' || failure === 'unsent';
}

/** Cancels the task that a call has noted. Never rejects. */
export async function stopNotedTask(connection: McpConnection, work: Json): Promise<void> {
  const task = readWork(work);
  if (task !== null) await stopTask(connection, task.taskId, CANCEL_NOTED_WITHIN_MS);
}

async function stopTask(connection: McpConnection, taskId: string, withinMs = CANCEL_WITHIN_MS): Promise<void> {
  try {
    await ask({ connection, signal: AbortSignal.timeout(withinMs) }, 'tasks/cancel', { taskId });
  } catch {
    // It has ended already, or the server is away: the model reads that the outcome is unknown.
  }
}
