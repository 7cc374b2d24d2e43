import type { InputItem, ResponseRequest } from '../../api/response-request.ts';
import { findSentIn } from '../../commands/send-message.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { type Db, inTransaction } from '../../store/db/database.ts';
import { findSessionOfMessage, findSessionOfQueued } from '../../store/session/conversations.ts';
import { readOutputFormat } from '../../store/session/run-output.ts';
import { findRun, findTaskAfter } from '../../store/session/runs.ts';
import { findSession } from '../../store/session/sessions.ts';
import { readRequiredActions } from '../../store/transcript/open-calls.ts';
import type { CarriedItem } from './compaction-item.ts';
import { refuse } from './conversation-request.ts';
import { conversationId, formatResponseId, parseItemId, parseResponseId, type ResponsePlace } from './response-ids.ts';
import type { Answer } from './response-pieces.ts';
import type { StartedCompletion } from './start-completion.ts';

export type FoundResponse = Answer & Readonly<{ place: ResponsePlace; model: string }>;

/** @throws BatonError `not_found` */
export async function findResponse(deps: HttpDeps, caller: Caller, id: string): Promise<FoundResponse> {
  const place = parseResponseId(id);
  const found = place === null ? null : await findPlace(deps.db, caller, place);
  if (place === null || found === null) throw new BatonError('not_found', `response ${id}`);
  return { caller, place, ...found };
}

type Found = Omit<FoundResponse, 'caller' | 'place'>;

function findPlace(db: Db, caller: Caller, place: ResponsePlace): Promise<Found | null> {
  return place.kind === 'message' ? findByMessage(db, caller, place.messageId) : findByRun(db, caller, place);
}

async function findByMessage(db: Db, { tenantId }: Caller, messageId: string): Promise<Found | null> {
  const sessionId = await findSessionOfQueued(db, tenantId, messageId);
  if (sessionId === null) return null;
  const accepted = await inTransaction(db, (tx) => findSentIn(tx, { tenantId, sessionId, messageId }));
  if (accepted === null) return null;
  const { agent_name: model } = await findSession(db, tenantId, sessionId);
  const { runId } = accepted;
  const isJson = (await readOutputFormat(db, tenantId, runId)) !== null;
  return { sessionId, runId, accepted, answerPlace: null, model, isJson };
}

async function findByRun(
  db: Db,
  { tenantId }: Caller,
  { runId, afterSeq }: Extract<ResponsePlace, { kind: 'run' }>,
): Promise<Found> {
  const run = await findRun(db, tenantId, runId);
  const sessionId = run.session_id;
  const { agent_name: model } = await findSession(db, tenantId, sessionId);
  const openActions = (await readRequiredActions(db, [run])).get(runId) ?? [];
  const answerPlace = afterSeq === null ? null : { afterSeq, openActions };
  return {
    sessionId,
    runId,
    accepted: null,
    answerPlace,
    model,
    isJson: (await readOutputFormat(db, tenantId, runId)) !== null,
  };
}

/** The place of the answer to a request. */
export function placeOf({ runId, accepted, answerPlace }: StartedCompletion): ResponsePlace {
  if (accepted !== null) return { kind: 'message', messageId: accepted.messageId };
  return { kind: 'run', runId, afterSeq: answerPlace?.afterSeq ?? null };
}

/** The session that a request names, and the part of its input that is new. */
type NamedInput = Readonly<{
  sessionName: string | null;
  items: readonly InputItem[];
  /** The item that stands for everything before these items. */
  compaction: CarriedItem | null;
}>;

/**
 * Reads which session a request goes on with: by the conversation that it names, the response before it, or the last
 * item of an earlier response that its input refers to. Without any, the input is the whole conversation, and an item of
 * compaction stands for all that comes before it.
 * @param isRepeated the request may be a repetition, whose answer is itself the newest response
 * @throws BatonError `not_found`; ProblemError `invalid_request`, `conflict` (the response before it is not the newest)
 */
export async function findContinued(
  deps: HttpDeps,
  caller: Caller,
  body: Pick<ResponseRequest, 'conversation' | 'previous_response_id' | 'input'>,
  isRepeated: boolean,
): Promise<NamedInput> {
  const { conversation, previous_response_id: previousId } = body;
  const items = typeof body.input === 'string' ? [toMessage(body.input)] : body.input;
  const carried = withoutCarried(items);
  if (carried !== null) {
    const named = conversation != null ? 'conversation' : previousId != null ? 'previous_response_id' : null;
    if (named !== null) refuse(named, 'an item of compaction begins a conversation: leave this out');
    return { sessionName: null, ...carried };
  }
  const at = items.findLastIndex(({ type }) => type === 'item_reference');
  const newItems = [...items.slice(0, at + 1).filter(isInstruction), ...items.slice(at + 1)];
  if (conversation != null) {
    if (previousId != null) refuse('previous_response_id', 'name it or the conversation, not both');
    return {
      sessionName: typeof conversation === 'string' ? conversation : conversation.id,
      items: newItems,
      compaction: null,
    };
  }
  if (previousId != null) {
    const previous = await findPrevious(deps, caller, previousId);
    if (!isRepeated) await refuseOlder(deps, previous);
    return { sessionName: conversationId(previous.sessionId), items: newItems, compaction: null };
  }
  const reference = items[at];
  if (reference?.type !== 'item_reference') return { sessionName: null, items, compaction: null };
  const sessionId = await sessionOfItem(deps, caller, reference.id);
  if (sessionId === null) refuse(`input.${at}.id`, 'no item of a response that is kept here');
  return { sessionName: conversationId(sessionId), items: newItems, compaction: null };
}

/** @throws ProblemError `not_found` that names the field */
async function findPrevious(deps: HttpDeps, caller: Caller, id: string): Promise<FoundResponse> {
  try {
    return await findResponse(deps, caller, id);
  } catch (cause) {
    if (!(cause instanceof BatonError) || cause.code !== 'not_found') throw cause;
    const message = `Previous response with id ${JSON.stringify(id)} not found`;
    throw new ProblemError('not_found', message, { errors: [{ path: 'previous_response_id', message }], cause });
  }
}

/** The last item of compaction, the instructions before it and all items after it. Null: there is none. */
function withoutCarried(items: readonly InputItem[]): Pick<NamedInput, 'items' | 'compaction'> | null {
  const at = items.findLastIndex(({ type }) => type === 'compaction');
  const item = items[at];
  if (item?.type !== 'compaction') return null;
  const compaction = { content: item.encrypted_content, path: `input.${at}.encrypted_content` };
  return { items: [...items.slice(0, at).filter(isInstruction), ...items.slice(at + 1)], compaction };
}

const toMessage = (content: string): InputItem => ({ type: 'message', role: 'user', content });

const isInstruction = (item: InputItem): boolean =>
  item.type === 'message' && (item.role === 'system' || item.role === 'developer');

async function sessionOfItem({ db }: HttpDeps, caller: Caller, id: string): Promise<string | null> {
  const place = parseItemId(id);
  if (place === null) return null;
  if (place.kind === 'item') return findSessionOfMessage(db, caller.tenantId, place.messageId);
  return (await findPlace(db, caller, place))?.sessionId ?? null;
}

/** A session goes on at its end. @throws ProblemError `conflict` */
async function refuseOlder({ db }: HttpDeps, { caller, sessionId, runId, place }: FoundResponse): Promise<void> {
  const later = await findTaskAfter(db, { tenantId: caller.tenantId, sessionId, runId });
  if (later === null) return;
  throw new ProblemError(
    'conflict',
    `Another response has followed ${formatResponseId(place)} in its session. Go on from the newest one, or fork the session with POST /v1/sessions/{id}/fork`,
  );
}
