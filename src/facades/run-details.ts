import { contextStateSchema } from '../domain/context/state.ts';
import { parseCallId, parseId } from '../domain/ids.ts';
import type { UserPart } from '../domain/message.ts';
import { NO_USAGE } from '../domain/usage.ts';
import type { LiveBus } from '../events/live-bus.ts';
import type { Db } from '../store/database.ts';
import { readMessageParts, readPart } from '../store/messages.ts';
import { findRun } from '../store/runs.ts';
import { findSession } from '../store/sessions.ts';
import { countWaiting } from '../store/waiting.ts';
import type { ContextMeter, EndState, LoggedUpdate, RunUpdate } from './run-updates.ts';

export type FollowDeps = Readonly<{ db: Db; bus: LiveBus; onError?: (error: unknown) => void }>;

/** A run of the tenant; the ids are UUIDs. */
export type RunRef = Readonly<{ tenantId: string; sessionId: string; runId: string }>;

/** Completes an update by what the log does not have. */
export async function* readMore(db: Db, ref: RunRef, update: LoggedUpdate, isLive: boolean): AsyncGenerator<RunUpdate> {
  switch (update.kind) {
    case 'tool-result': {
      const place = parseCallId(update.id);
      const part = place === null ? null : await readPart(db, ref.tenantId, place);
      yield { ...update, part: part?.type === 'tool' ? part : null };
      return;
    }
    case 'joined':
      yield { ...update, parts: update.parts ?? (await readUserParts(db, ref.tenantId, update.messageId)) };
      return;
    case 'step-completed':
      yield { ...update, context: isLive ? await readMeter(db, ref) : null };
      return;
    case 'ended':
      yield { ...update, state: await readEndState(db, ref) };
      return;
    default:
      yield update;
  }
}

async function readUserParts(db: Db, tenantId: string, messageId: string): Promise<UserPart[]> {
  const id = parseId('message', messageId);
  const parts = id === null ? [] : await readMessageParts(db, tenantId, id);
  return parts.filter((part) => part.type === 'text' || part.type === 'file');
}

async function readMeter(db: Db, { tenantId, sessionId }: RunRef): Promise<ContextMeter | null> {
  return toMeter((await findSession(db, tenantId, sessionId)).context_state);
}

function toMeter(state: unknown): ContextMeter | null {
  const { meter } = contextStateSchema.parse(state);
  return meter === null ? null : { used: meter.usedTokens, usable: meter.usableTokens };
}

async function readEndState(db: Db, ref: RunRef): Promise<EndState> {
  const run = await findRun(db, ref.tenantId, ref.runId);
  const usage = {
    inputTokens: run.input_tokens,
    outputTokens: run.output_tokens,
    reasoningTokens: run.reasoning_tokens,
    cacheReadTokens: run.cache_read_tokens,
    cacheWriteTokens: run.cache_write_tokens,
    totalTokens: run.input_tokens + run.output_tokens,
  };
  return { ...(await readIdleState(db, ref)), usage };
}

/** What a session is at that no run has worked in. */
export async function readIdleState(
  db: Db,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
): Promise<EndState> {
  const session = await findSession(db, tenantId, sessionId);
  const waiting = await countWaiting(db, tenantId, sessionId);
  return { usage: NO_USAGE, context: toMeter(session.context_state), waiting };
}
