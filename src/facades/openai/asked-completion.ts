import { readAgent } from '../../agents/agent.ts';
import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { type ModelSettings, settingProblems } from '../../domain/model/model-settings.ts';
import type { Repetition } from '../../domain/run/turn.ts';
import type { ConversationMessage, SplitConversation } from '../../domain/transcript/conversation.ts';
import type { Usage } from '../../domain/usage.ts';
import { contentField, toParts } from '../../http/bodies/content-field.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { ModelPort } from '../../model/model-port.ts';
import { adaptAgent } from '../../store/conversations.ts';
import type { Tx } from '../../store/database.ts';
import type { AcceptedMessage } from '../../store/inbox.ts';
import type { ResumedSession } from '../../store/resume.ts';
import type { AnsweredRun } from '../answer-calls.ts';
import { agentFor, type CompletionRequest, partsOf, SETTING_PARAMETERS, settingsOf } from './completion-request.ts';

/** A request that can be answered, and what it asks. */
export type AskedCompletion = Readonly<{
  deps: HttpDeps;
  caller: Caller;
  body: CompletionRequest;
  /** What the client calls the session; absent: it is known by the conversation. */
  sessionName: string | undefined;
  repetition: Repetition;
  signal: AbortSignal;
  conversation: readonly ConversationMessage[];
  split: SplitConversation;
  /** Whose conversation it is, and the hash of both. */
  owner: readonly unknown[];
  asked: Uint8Array;
  /** This request, as the one that is told the answer. */
  readerId: string;
}>;

/** Where the answer to results of calls begins, and what its run waited for besides. */
type AnswerPlace = Readonly<{ afterSeq: number; open: AnsweredRun['actions'] }>;

/** What became of a request in the transaction that took it. */
export type TakenCompletion = Readonly<{
  sessionId: string;
  /** Of the turn. A message that was moved since is taken up by the run of `accepted`. */
  runId: string;
  /** The message that was taken; null: only calls were answered, or a run that was stopped goes on. */
  accepted: AcceptedMessage | null;
  /** A message that joins the run whose calls were answered. */
  joined?: AcceptedMessage;
  continued: AnswerPlace | null;
  /** What the run had used before. */
  usedBefore: Usage;
  answered?: AnsweredRun;
  resumed?: ResumedSession;
}>;

/** It could not be taken yet: a run is about to end. */
export type NotYetTaken = Readonly<{ waitsFor: string }>;

/** @throws ProblemError `invalid_request` that names the field at `path` */
export function refuse(path: string, message: string): never {
  throw new ProblemError('invalid_request', `${path}: ${message}`, { errors: [{ path, message }] });
}

/** What the user says in these messages, as one message; null: nothing. @throws ProblemError `invalid_request` */
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
 * Gives the session's agent what the request adds to it.
 * @throws ProblemError `invalid_request` (a tool's name is taken, the model takes no such setting)
 */
export function adapt(tx: Tx, { deps, caller, body }: AskedCompletion, sessionId: string): Promise<void> {
  return adaptAgent(tx, caller.tenantId, sessionId, async (base) => {
    const adapted = agentFor(body, base);
    refuseUntaken(deps.models, adapted.model, settingsOf(body));
    if ((body.tools ?? []).length === 0) return adapted;
    // What is wrong with these is no fault of the request.
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
 * Nobody is to take the answer for what was asked for.
 * @throws ProblemError `invalid_request` that names the parameter
 */
function refuseUntaken(models: ModelPort, model: string, settings: ModelSettings): void {
  if (Object.keys(settings).length === 0) return;
  const [problem] = settingProblems(models(model).protocol, model, settings);
  if (problem !== undefined) refuse(SETTING_PARAMETERS[problem.name] ?? problem.name, problem.message);
}
