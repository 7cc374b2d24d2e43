import type { Caller } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { formatCallId, formatId, parseCallId } from '../domain/ids.ts';
import type { CallAnswer, RequiredAction } from '../domain/required-action.ts';
import { appendAudit } from '../store/audit.ts';
import { answerCall } from '../store/call-answers.ts';
import { findLastRunEvent } from '../store/events.ts';
import { readRequiredActions } from '../store/open-calls.ts';
import { findRun } from '../store/runs.ts';
import type { SessionRow } from '../store/sessions.ts';
import { dispatchJob } from './dispatch.ts';
import { jsonField } from './fields.ts';
import type { HttpDeps } from './http-deps.ts';
import { refuseInvalid } from './validation.ts';

/** A run that has waited for answers. */
export type ContinuedRun = Readonly<{
  runId: string;
  /** The event with which it began to. */
  afterSeq: number;
  /** What it waited for before. */
  actions: readonly RequiredAction[];
}>;

/**
 * Gives the active run of a session the answers that a request has for it. Null: no run has waited for any that is still at
 * work.
 * @param answerTo what the request says about a call; null: nothing
 */
export async function answerCalls(
  deps: HttpDeps,
  caller: Caller,
  { active_run_id: runId, id: sessionId }: Pick<SessionRow, 'active_run_id' | 'id'>,
  answerTo: (action: RequiredAction) => CallAnswer | null,
): Promise<ContinuedRun | null> {
  const { tenantId } = caller;
  if (runId === null) return null;
  const afterSeq = await findLastRunEvent(deps.db, tenantId, { sessionId, runId }, 'run:requires-action');
  if (afterSeq === null) return null;
  const run = await findRun(deps.db, tenantId, runId);
  const actions = (await readRequiredActions(deps.db, [run])).get(runId) ?? [];
  for (const action of actions) {
    const given = answerTo(action);
    if (given !== null) await giveAnswer(deps, caller, { runId, callId: action.id }, given);
  }
  return { runId, afterSeq, actions };
}

async function giveAnswer(
  deps: HttpDeps,
  { tenantId, keyId }: Caller,
  { runId, callId }: Readonly<{ runId: string; callId: string }>,
  given: CallAnswer,
): Promise<void> {
  const place = parseCallId(callId);
  if (place === null) return;
  if ('output' in given) refuseInvalid({ target: 'json', ...jsonField.safeParse(given.output) });
  try {
    const answered = await answerCall(deps.db, { tenantId, runId, ...place }, given);
    const target = `/v1/runs/${formatId('run', runId)}/tool-calls/${formatCallId(place.messageId, place.index)}`;
    await appendAudit(deps.db, { tenantId, keyId, action: 'tool-call:answer', target });
    deps.bus.announce(answered.sessionId, answered.eventSeq);
    if (answered.job !== null) await dispatchJob(deps, answered.job);
  } catch (error) {
    // Somebody else was faster: the stream tells what they said.
    if (error instanceof BatonError && (error.code === 'already_answered' || error.code === 'conflict')) return;
    throw error;
  }
}
