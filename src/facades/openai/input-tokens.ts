import { agentSchema } from '../../agents/agent.ts';
import type { InputTokensRequest } from '../../api/response-request.ts';
import type { Caller } from '../../domain/access.ts';
import { type ContextState, NEW_CONTEXT_STATE } from '../../domain/context/meter/state.ts';
import { importedTranscript, type NewMessage } from '../../domain/model/imported-transcript.ts';
import { type ConversationMessage, splitConversation } from '../../domain/transcript/conversation.ts';
import type { Part, ViewMessage } from '../../domain/transcript/message.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { measureRequest } from '../../http/measure-request.ts';
import { readMeteredContext } from '../../store/session/context.ts';
import { findAnsweredSessions, readAgentBase } from '../../store/session/conversations.ts';
import { findSessionByKey } from '../../store/session/sessions.ts';
import { newChatSession } from '../chat-session.ts';
import { carriedBy } from './compaction-item.ts';
import { conversationOf, ownerOf } from './completion-request.ts';
import { hashOf, readForHash } from './conversation-hash.ts';
import { adaptedAgent } from './conversation-request.ts';
import { findContinued } from './find-response.ts';
import { toCompletionRequest } from './response-request.ts';
import { namedSession } from './start-completion.ts';

/** The state before a request: that of its session, or of one that it would begin. */
type Basis = Readonly<{
  agentBase: unknown;
  view: readonly ViewMessage[];
  contextState: ContextState;
  /** The messages that are not in the view yet. */
  added: readonly ConversationMessage[];
}>;

/** Without any input, what is there so far is counted. */
export const NO_INPUT = [{ type: 'message' as const, role: 'user' as const, content: '' }];

/**
 * Measures the first model request that a response would make, as the context layer measures it.
 * @throws as `findContinued` and `startCompletion`
 */
export async function countInputTokens(
  deps: HttpDeps,
  caller: Caller,
  body: InputTokensRequest,
  signal: AbortSignal,
): Promise<number> {
  const request = { ...body, input: body.input ?? NO_INPUT };
  const { sessionName, items, compaction } = await findContinued(deps, caller, request, true);
  const completion = toCompletionRequest(request, items.length === 0 ? NO_INPUT : items);
  const conversation = [...carriedBy(compaction), ...conversationOf(completion)];
  const { history, news } = splitConversation(conversation);
  await readForHash(conversation);
  const owner = { tenantId: caller.tenantId, agentName: body.model };
  const sessionId =
    sessionName === null
      ? await findRecognized(deps, owner, hashOf([...ownerOf(completion), null], history), history)
      : await findNamed(deps, caller, sessionName);
  const basis =
    sessionId === null
      ? await newBasis(deps, owner, conversation, signal)
      : { ...(await basisOf(deps, caller, sessionId)), added: news };
  const agent = agentSchema.parse(await adaptedAgent(deps, completion, basis.agentBase));
  const { view, contextState } = basis;
  return measureRequest(deps, { tenantId: caller.tenantId, agent, view, contextState, added: addedTo(basis) });
}

type Owner = Readonly<{ tenantId: string; agentName: string }>;

async function findRecognized(
  { db }: HttpDeps,
  owner: Owner,
  historyHash: Uint8Array,
  history: readonly ConversationMessage[],
): Promise<string | null> {
  if (history.length === 0) return null;
  const [sessionId = null] = await findAnsweredSessions(db, owner, historyHash);
  return sessionId;
}

/** The session of this name. Null: there is none. */
export async function findNamed({ db }: HttpDeps, { tenantId }: Caller, sessionName: string): Promise<string | null> {
  const ref = namedSession(sessionName);
  return 'id' in ref ? ref.id : ((await findSessionByKey(db, tenantId, ref.key))?.id ?? null);
}

async function basisOf({ db }: HttpDeps, { tenantId }: Caller, sessionId: string): Promise<Omit<Basis, 'added'>> {
  const { view, contextState } = await readMeteredContext(db, tenantId, sessionId);
  return { agentBase: await readAgentBase(db, tenantId, sessionId), view, contextState };
}

async function newBasis(
  deps: HttpDeps,
  { tenantId, agentName }: Owner,
  added: readonly ConversationMessage[],
  signal: AbortSignal,
): Promise<Basis> {
  const { agentSnapshot } = await newChatSession(deps, tenantId, { agentName, signal });
  return { agentBase: agentSnapshot, view: [], contextState: NEW_CONTEXT_STATE, added };
}

/** The messages to add, as the view would have them. */
function addedTo({ view, added }: Basis): ViewMessage[] {
  const lastSeq = view.at(-1)?.seq ?? 0;
  return [...importedTranscript(added), ...resultsIn(view, added)].map(({ role, parts }, index) => {
    return { id: `added ${index}`, seq: lastSeq + index + 1, role, model: null, parts: parts.map(typed) };
  });
}

/** Results of calls in the view have about as many tokens as texts of the user. */
function resultsIn(view: readonly ViewMessage[], added: readonly ConversationMessage[]): NewMessage[] {
  if (view.length === 0) return [];
  return added.flatMap((message): NewMessage[] =>
    message.role === 'tool' ? [{ role: 'user', parts: [{ type: 'text', text: message.text }] }] : [],
  );
}

/** The file with the type that its data URL names. */
function typed(part: Part): Part {
  if (part.type !== 'file' || part.mediaType !== '') return part;
  return { ...part, mediaType: /^data:([^;,]+)/i.exec(part.url)?.[1] ?? 'application/octet-stream' };
}
