import type { CommandPorts } from '../commands/ports.ts';
import { contextStateSchema } from '../domain/context/meter/state.ts';
import { formatId, parseCallId, parseId } from '../domain/ids.ts';
import type { Part, UserPart } from '../domain/transcript/message.ts';
import type { RequiredAction } from '../domain/transcript/required-action.ts';
import { NO_USAGE } from '../domain/usage.ts';
import type { Db } from '../store/db/database.ts';
import { usageOf } from '../store/db/usage-columns.ts';
import { readRunOutput } from '../store/session/run-output.ts';
import { findRun } from '../store/session/runs.ts';
import { findSession } from '../store/session/sessions.ts';
import { countWaiting } from '../store/session/waiting-messages.ts';
import { readMessageParts, readPart } from '../store/transcript/messages.ts';
import { readRequiredActions } from '../store/transcript/open-calls.ts';
import { readWritten } from '../store/transcript/written-messages.ts';
import type { ContextMeter, EndState, LoggedUpdate, RunUpdate } from './run-updates.ts';

export type FollowDeps = Readonly<{ db: Db; bus: CommandPorts['bus']; onError?: (error: unknown) => void }>;

/** A run of the tenant. The ids are UUIDs. */
export type RunRef = Readonly<{ tenantId: string; sessionId: string; runId: string }>;

/** Adds the details of an update that the event log leaves out. */
export async function* readMore(db: Db, ref: RunRef, update: LoggedUpdate, isLive: boolean): AsyncGenerator<RunUpdate> {
  switch (update.kind) {
    case 'tool-result': {
      const place = parseCallId(update.id);
      const part = place === null ? null : await readPart(db, ref.tenantId, { sessionId: ref.sessionId, ...place });
      yield { ...update, part: part?.type === 'tool' ? part : null };
      return;
    }
    case 'joined':
      yield* readJoined(db, ref, update);
      return;
    case 'step-completed':
      yield { ...update, context: isLive ? await readMeter(db, ref) : null };
      return;
    case 'asked':
      yield update.childRunId === null
        ? {
            ...update,
            wasAnswered: !isLive && (await findRun(db, ref.tenantId, ref.runId)).status !== 'requires_action',
          }
        : { ...update, calls: await readWaitingCalls(db, update) };
      return;
    case 'ended':
      yield { ...update, state: await readEndState(db, ref) };
      return;
    default:
      yield update;
  }
}

/**
 * The calls that still wait. Answers to calls of a run below are not in this run's log, so a replay would ask for them
 * again.
 */
async function readWaitingCalls(
  db: Db,
  { calls, childRunId }: Extract<RunUpdate, { kind: 'asked' }>,
): Promise<readonly RequiredAction[]> {
  const runId = childRunId === null ? null : parseId('run', childRunId);
  if (runId === null || calls.length === 0) return calls;
  const open = (await readRequiredActions(db, [{ id: runId, status: 'requires_action' }])).get(runId) ?? [];
  return calls.filter(({ id }) => open.some((call) => call.id === id));
}

/** Each queued message as it was written. Those that one step drained are one message in the transcript. */
async function* readJoined(
  db: Db,
  { tenantId, sessionId }: RunRef,
  update: Extract<LoggedUpdate, { kind: 'joined' }>,
): AsyncGenerator<RunUpdate> {
  const id = parseId('message', update.messageId);
  if (id === null) return;
  const together = (await readWritten(db, { tenantId, sessionId }, [id])).get(id);
  if (together === undefined) {
    const key = { sessionId, messageId: id };
    const parts = update.parts ?? (await readMessageParts(db, tenantId, key)).filter(isUserPart);
    yield { ...update, parts };
  }
  for (const written of together ?? []) {
    yield { kind: 'joined', messageId: formatId('message', written.id), parts: written.content };
  }
}

const isUserPart = (part: Part): part is UserPart => part.type === 'text' || part.type === 'file';

async function readMeter(db: Db, { tenantId, sessionId }: RunRef): Promise<ContextMeter | null> {
  return toMeter((await findSession(db, tenantId, sessionId)).context_state);
}

function toMeter(state: unknown): ContextMeter | null {
  const { meter } = contextStateSchema.parse(state);
  return meter === null ? null : { used: meter.usedTokens, usable: meter.usableTokens };
}

async function readEndState(db: Db, ref: RunRef): Promise<EndState> {
  const run = await findRun(db, ref.tenantId, ref.runId);
  const output = await readRunOutput(db, ref.tenantId, run);
  return { ...(await readIdleState(db, ref)), usage: usageOf(run), output, endedAt: run.finished_at ?? undefined };
}

/** The state of a session in which no run has worked. */
export async function readIdleState(
  db: Db,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
): Promise<EndState> {
  const session = await findSession(db, tenantId, sessionId);
  const waiting = await countWaiting(db, tenantId, sessionId);
  return { usage: NO_USAGE, context: toMeter(session.context_state), waiting, output: null };
}
