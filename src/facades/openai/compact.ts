import type { CompactRequest } from '../../api/response-request.ts';
import { compactConversation } from '../../commands/compact-conversation.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError, type ErrorRecord } from '../../domain/errors.ts';
import { importedTranscript } from '../../domain/model/imported-transcript.ts';
import { splitConversation } from '../../domain/transcript/conversation.ts';
import { COMPACTION_KEPT_MS } from '../../domain/tunables.ts';
import { addUsage, NO_USAGE, type Usage } from '../../domain/usage.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { listCompactions, readContext } from '../../store/session/context.ts';
import { findSession } from '../../store/session/sessions.ts';
import { newChatSession } from '../chat-session.ts';
import { followDeps } from '../follow-deps.ts';
import { followRun } from '../follow-run.ts';
import type { RunEnd } from '../run-updates.ts';
import { carriedBy, decodeCompaction, encodeCompaction } from './compaction-item.ts';
import { conversationOf } from './completion-request.ts';
import { adaptedAgent, refuse } from './conversation-request.ts';
import { findContinued } from './find-response.ts';
import { findNamed, NO_INPUT } from './input-tokens.ts';
import { toCompletionRequest } from './response-request.ts';

export type Compacted = Readonly<{ sessionId: string; content: string; usage: Usage }>;

/**
 * Compacts the conversation of a request by the agent's own rules, as a session of it would be compacted, and waits for
 * the end. A conversation that is too short for a summary is carried as it is.
 * @throws as `findContinued` and `compactConversation`; ProblemError `invalid_request` (there is nothing to compact),
 * `conflict` (the session of the response before is at work, or what is left is too large); BatonError
 * `store_unavailable` (the server stops); ProblemError with the code of the error with which the compaction failed
 */
export async function compact(
  deps: HttpDeps,
  caller: Caller,
  body: CompactRequest,
  signal: AbortSignal,
): Promise<Compacted> {
  const { tenantId } = caller;
  const { completion, messages } = await readConversation(deps, caller, body);
  if (messages.length === 0) refuse('input', 'there is nothing to compact');
  const session = {
    ...(await newChatSession(deps, tenantId, { agentName: body.model, signal })),
    title: 'A compaction',
    expiresAt: new Date(Date.now() + COMPACTION_KEPT_MS),
  };
  const adapt = (base: unknown) => adaptedAgent(deps, completion, base);
  const runId = await compactConversation(deps, { actor: caller, session, messages, adapt });
  const place = { tenantId, sessionId: session.id, runId };
  refuseFailed(await endOf(deps, place, signal));
  return resultOf(deps, place);
}

async function readConversation(deps: HttpDeps, caller: Caller, body: CompactRequest) {
  const request = { ...body, input: body.input ?? NO_INPUT };
  const { sessionName, items, compaction } = await findContinued(deps, caller, request, false);
  const isEmpty = body.input == null || items.every(({ type }) => type !== 'message' && type !== 'function_call');
  const completion = toCompletionRequest(request, items.length === 0 ? NO_INPUT : items);
  const conversation = isEmpty ? [] : conversationOf(completion);
  const before = sessionName === null ? [] : await readBefore(deps, caller, sessionName);
  const added = sessionName === null ? conversation : splitConversation(conversation).news;
  return { completion, messages: [...before, ...importedTranscript([...carriedBy(compaction), ...added])] };
}

/** The view of the session, which goes on as it is. @throws ProblemError `conflict` (a run is at work in it) */
async function readBefore(deps: HttpDeps, caller: Caller, sessionName: string) {
  const sessionId = await findNamed(deps, caller, sessionName);
  if (sessionId === null) return [];
  const { active_run_id: active } = await findSession(deps.db, caller.tenantId, sessionId);
  if (active !== null) throw new ProblemError('conflict', 'The response before is not complete: wait for its end');
  const { view } = await readContext(deps.db, caller.tenantId, sessionId);
  return decodeCompaction(await encodeCompaction(deps.db, sessionId, view), 'previous_response_id').messages;
}

type RunPlace = Readonly<{ tenantId: string; sessionId: string; runId: string }>;

/** @throws BatonError `store_unavailable`: the server stops, or the client has gone away and nobody hears of it */
async function endOf(deps: HttpDeps, place: RunPlace, signal: AbortSignal): Promise<RunEnd> {
  for await (const update of followRun(followDeps(deps), place, { signal })) {
    if (update.kind === 'ended') return update.end;
  }
  throw new BatonError('store_unavailable', 'the server stops: ask for the compaction again');
}

function refuseFailed(end: RunEnd): void {
  if (end.status === 'completed') return;
  const error = 'error' in end ? end.error : undefined;
  throw failed(error ?? { code: 'conflict', message: `The compaction ended before it was done: ${end.status}` });
}

/** Baton has tried as often as it makes sense. */
const failed = ({ code, message }: Pick<ErrorRecord, 'code' | 'message'>): ProblemError =>
  new ProblemError(code, message, { headers: { 'x-should-retry': 'false' } });

/** More rounds of one compaction are not made. */
const ROUNDS = 20;

async function resultOf({ db }: HttpDeps, { tenantId, sessionId }: RunPlace): Promise<Compacted> {
  const rounds = await listCompactions(db, tenantId, sessionId, ROUNDS);
  const usage = rounds.reduce((sum, round) => addUsage(sum, round.usage ?? NO_USAGE), NO_USAGE);
  const [last] = rounds;
  // One that would have been no smaller is none, and the conversation stays as it is.
  if (last?.state === 'failed' && last.error !== null) throw failed(last.error);
  const { view } = await readContext(db, tenantId, sessionId);
  return { sessionId, content: await encodeCompaction(db, sessionId, view), usage };
}
