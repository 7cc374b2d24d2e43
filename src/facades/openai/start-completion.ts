import type { CompletionRequest } from '../../api/completion-request.ts';
import { type ContinuedConversation, continueConversation } from '../../commands/continue-conversation.ts';
import type { Caller } from '../../domain/access.ts';
import { parseSessionRef, type SessionRef } from '../../domain/run/session-ref.ts';
import {
  answersCalls,
  type ConversationMessage,
  leavesCallsOpen,
  type SplitConversation,
  splitConversation,
} from '../../domain/transcript/conversation.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { newChatSession } from '../chat-session.ts';
import { type CarriedItem, carriedBy } from './compaction-item.ts';
import { conversationOf, outputOf, ownerOf, toolChoiceProblem } from './completion-request.ts';
import { hashOf, readForHash } from './conversation-hash.ts';
import { adaptedAgent, contentOf, refuse, resultsOf } from './conversation-request.ts';

const DAY_MS = 86_400_000;

export type StartedCompletion = ContinuedConversation &
  Readonly<{
    caller: Caller;
    /** The client asked for JSON. */
    isJson: boolean;
    /** A client that has no other way finds the session by the conversation with its answer. */
    isNamed: boolean;
    conversation: readonly ConversationMessage[];
    /** As `ownerOf`, with the name of the session. */
    owner: readonly unknown[];
    questionHash: Uint8Array;
  }>;

/** The signs that a request repeats an earlier one. */
type Repetition = Readonly<{
  /** The request's `Idempotency-Key`. */
  key: string | null;
  /** OpenAI's library makes the request again. */
  isRetry: boolean;
}>;

type RepetitionHeaders = Readonly<{
  'idempotency-key'?: string | undefined;
  'x-stainless-retry-count'?: string | undefined;
}>;

/** OpenAI's libraries send the number of their retries, and no key by themselves. */
export const repetitionOf = (header: RepetitionHeaders): Repetition => ({
  key: header['idempotency-key'] ?? null,
  isRetry: /^[1-9]\d*$/.test(header['x-stainless-retry-count'] ?? ''),
});

type CompletionStart = Repetition &
  Readonly<{
    body: CompletionRequest;
    sessionName: string | null;
    /** The run ends when the client goes away, so a retry begins anew. */
    endsWithClient: boolean;
    /** The item that stands for all that comes before the messages. Absent: they are the whole conversation. */
    compaction?: CarriedItem | null;
    signal: AbortSignal;
  }>;

/**
 * Translates a request for an answer and carries it out.
 * @throws as `continueConversation`; ProblemError `invalid_request`
 */
export async function startCompletion(
  deps: HttpDeps,
  caller: Caller,
  { body, sessionName, key, isRetry, endsWithClient, compaction = null, signal }: CompletionStart,
): Promise<StartedCompletion> {
  const { tenantId } = caller;
  const conversation = [...carriedBy(compaction), ...conversationOf(body)];
  const { history, news } = splitConversation(conversation.length === 0 ? NOTHING_SAID : conversation);
  refuseUnanswerable({ history, news });
  const problem = toolChoiceProblem(body);
  if (problem !== null) refuse('tool_choice', problem);
  await readForHash(conversation);
  const owner = [...ownerOf(body), sessionName];
  const conversationHash = hashOf(owner, conversation);
  const keptUntil = sessionName === null ? keptUntilOf(deps) : null;
  // No retry reads an answer that ends with another client.
  const questionHash = endsWithClient ? hashOf([...owner, 'ends-with-client'], conversation) : conversationHash;
  const output = outputOf(body);
  const continued = await continueConversation(deps, {
    actor: caller,
    signs: {
      owner: { tenantId, agentName: body.model },
      sessionName: sessionName === null ? null : namedSession(sessionName),
      messageId:
        key === null
          ? deps.newId()
          : derivedId('openai', tenantId, body.model, key, Buffer.from(conversationHash).toString('hex')),
      hasKey: key !== null,
      isRetry: isRetry && !endsWithClient,
      questionHash,
      historyHash: history.length === 0 ? null : hashOf(owner, history),
      results: resultsOf(news),
    },
    history: [...history, ...news.filter(({ role }) => role === 'tool')],
    content: conversation.length === 0 ? [{ type: 'text', text: '' }] : contentOf(news),
    answersCalls: answersCalls({ history, news }),
    output,
    keptUntil,
    adapt: (base) => adaptedAgent(deps, body, base),
    newSession: async () => ({
      ...(await newChatSession(deps, tenantId, { agentName: body.model, signal })),
      ...(sessionName === null ? { expiresAt: keptUntil } : externalKeyOf(sessionName)),
    }),
  });
  const isNamed = sessionName !== null;
  return { caller, isJson: output !== undefined, isNamed, conversation, owner, questionHash, ...continued };
}

/** Instructions alone are answered, too. */
const NOTHING_SAID: readonly ConversationMessage[] = [{ role: 'user', text: '' }];

/** A name that is the id of a session, or `key:` and its key, means that session. */
export const namedSession = (sessionName: string): SessionRef =>
  parseSessionRef(sessionName) ?? { key: `openai:${sessionName}` };

/** Of a session that the conversation begins. One that was named by an id exists. */
function externalKeyOf(sessionName: string): Readonly<{ externalKey?: string }> {
  const ref = namedSession(sessionName);
  return 'key' in ref ? { externalKey: ref.key } : {};
}

function refuseUnanswerable(split: SplitConversation): void {
  if (split.news.length === 0) {
    throw new ProblemError('invalid_request', 'messages: the last one must be of the user or a tool');
  }
  if (!leavesCallsOpen(split)) return;
  refuse('messages', 'the calls of the assistant’s last message need a message of role tool each');
}

/** The time at which a session without a name expires if no other request comes. Null: never. */
function keptUntilOf({ completionKeptDays = 0 }: HttpDeps): Date | null {
  return completionKeptDays === 0 ? null : new Date(Date.now() + completionKeptDays * DAY_MS);
}
