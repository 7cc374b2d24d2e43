import { readAgent } from '../../agents/agent.ts';
import { contentField, toParts } from '../../api/content-field.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { type ModelSettings, settingProblems } from '../../domain/model/model-settings.ts';
import type { ConversationMessage, SplitConversation } from '../../domain/transcript/conversation.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import type { Usage } from '../../domain/usage.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { ModelPort } from '../../model/model-port.ts';
import type { AcceptedMessage } from '../../store/changes/inbox.ts';
import type { ResumedSession } from '../../store/changes/resume.ts';
import type { Tx } from '../../store/db/database.ts';
import { adaptAgent } from '../../store/session/conversations.ts';
import type { AnsweredRun } from '../answer-calls.ts';
import { agentFor, type CompletionRequest, partsOf, SETTING_PARAMETERS, settingsOf } from './completion-request.ts';

/** The signs that a request repeats an earlier one: its `Idempotency-Key`, or OpenAI's library says so. */
type Repetition = Readonly<{ key: string | null; isRetry: boolean }>;

/** A validated request, with its parsed conversation. */
export type AskedCompletion = Readonly<{
  deps: HttpDeps;
  caller: Caller;
  body: CompletionRequest;
  /** The client's name for the session; absent: the conversation identifies it. */
  sessionName: string | undefined;
  repetition: Repetition;
  signal: AbortSignal;
  conversation: readonly ConversationMessage[];
  split: SplitConversation;
  /** The owner of the conversation, and the hash of both. */
  owner: readonly unknown[];
  asked: Uint8Array;
  /** Id of the message that it sends: with a key the same each time. */
  messageId: string;
  /** Id of this request as the reader of the answer. */
  readerId: string;
}>;

/** The place of an answer to results of calls: it begins after `afterSeq`. `open`: the run's other required actions. */
type AnswerPlace = Readonly<{ afterSeq: number; open: readonly RequiredAction[] }>;

export type TakenCompletion = Readonly<{
  sessionId: string;
  runId: string;
  /** The accepted message, perhaps of an earlier request; null: only calls were answered, or a stopped run was resumed. */
  accepted: AcceptedMessage | null;
  /** A message that steers the run whose calls were answered. */
  joined?: AcceptedMessage;
  continued: AnswerPlace | null;
  /** Usage of the run before this answer. */
  usedBefore: Usage;
  answered?: AnsweredRun;
  resumed?: ResumedSession;
}>;

/** @throws ProblemError `invalid_request` that names the field at `path` */
export function refuse(path: string, message: string): never {
  throw new ProblemError('invalid_request', `${path}: ${message}`, { errors: [{ path, message }] });
}

/** The user's texts and files in these messages, as one message; null: none. @throws ProblemError `invalid_request` */
export function contentOf(said: readonly ConversationMessage[]): ReturnType<typeof toParts> | null {
  const parts = said.flatMap((message) => (message.role === 'user' ? partsOf(message) : []));
  if (parts.length === 0) return null;
  const named = parts.map((part) =>
    part.type === 'file' && part.mediaType === '' ? { type: part.type, url: part.url, filename: part.filename } : part,
  );
  const parsed = contentField.safeParse(named);
  refuseInvalid({ target: 'json', ...parsed });
  return toParts(parsed.data ?? []);
}

/**
 * Adds the instructions, tools and settings of the request to the session's agent.
 * @throws ProblemError `invalid_request` (the name of a tool is taken, or the model has no such setting)
 */
export function adapt(tx: Tx, { deps, caller, body }: AskedCompletion, sessionId: string): Promise<void> {
  return adaptAgent(tx, caller.tenantId, sessionId, async (base) => {
    const adapted = agentFor(body, base);
    refuseUntaken(deps.models, adapted.model, settingsOf(body));
    if ((body.tools ?? []).length === 0) return adapted;
    // An error in the agent's own tools is no fault of the request.
    await deps.toolsOf(readAgent(base));
    try {
      await deps.toolsOf(adapted);
    } catch (error) {
      if (!(error instanceof BatonError) || error.code !== 'config_invalid') throw error;
      refuse('tools', error.message.replace(/^\S+: /, ''));
    }
    return adapted;
  });
}

/**
 * Refuses settings that the model would ignore, so that the client does not take them for applied.
 * @throws ProblemError `invalid_request` that names the parameter
 */
function refuseUntaken(models: ModelPort, model: string, settings: ModelSettings): void {
  if (Object.keys(settings).length === 0) return;
  const [problem] = settingProblems(models(model).protocol, model, settings);
  if (problem !== undefined) refuse(SETTING_PARAMETERS[problem.name] ?? problem.name, problem.message);
}
