import type { Caller } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { leavesCallsOpen, type SplitConversation, splitConversation } from '../../domain/transcript/conversation.ts';
import { waitForRun } from '../../events/wait-for-run.ts';
import { afterAccepted, afterChanged } from '../../http/after-commit.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { tellAnswered } from '../answer-calls.ts';
import { type AskedCompletion, type NotYetTaken, refuse, type TakenCompletion } from './asked-completion.ts';
import { conversationOf, ownerOf } from './completion-request.ts';
import { hashOf, readForHash } from './conversation-hash.ts';
import { takeInSession } from './take-in-session.ts';
import { takeResults } from './take-results.ts';
import { resultsOf, sessionOfCalls } from './tool-results.ts';

export type StartedCompletion = Readonly<{ caller: Caller }> &
  Pick<AskedCompletion, 'conversation' | 'owner' | 'asked' | 'readerId'> &
  Pick<TakenCompletion, 'sessionId' | 'runId' | 'accepted' | 'continued' | 'usedBefore'>;

/** The longest wait for a client that is going away, and for a run that is being stopped. */
const LEAVING_PATIENCE_MS = 2_000;

type Request = Pick<AskedCompletion, 'body' | 'sessionName' | 'repetition' | 'signal'>;

/**
 * Takes the new part of a request: results of calls go to the run that waits for them, messages to the conversation's
 * session. An unknown conversation is imported; a repeated request is taken once.
 * @throws BatonError as `acceptMessage` and `inChatSession`; ProblemError `invalid_request`, `conflict`
 */
export async function startCompletion(deps: HttpDeps, caller: Caller, request: Request): Promise<StartedCompletion> {
  const conversation = conversationOf(request.body);
  const split = splitConversation(conversation);
  refuseUnanswerable(split);
  await readForHash(conversation);
  const owner = [...ownerOf(request.body), request.sessionName ?? null];
  const place = { conversation, owner, asked: hashOf(owner, conversation), readerId: deps.newId() };
  const taken = await takeWithPatience({ deps, caller, ...request, split, ...place });
  await tellTaken(deps, taken);
  return { caller, ...place, ...taken };
}

function refuseUnanswerable(split: SplitConversation): void {
  if (split.news.length === 0) {
    throw new ProblemError('invalid_request', 'messages: the last one must be of the user or a tool');
  }
  if (!leavesCallsOpen(split)) return;
  refuse('messages', 'the calls of the assistant’s last message need a message of role tool each');
}

async function takeWithPatience(asked: AskedCompletion): Promise<TakenCompletion> {
  const { deps, caller, signal } = asked;
  const first = await take(asked, true);
  if (!('waitsFor' in first)) return first;
  const { tenantId } = caller;
  await waitForRun(deps, { tenantId, runId: first.waitsFor, timeoutMs: LEAVING_PATIENCE_MS, signal });
  const second = await take(asked, false);
  if ('waitsFor' in second) throw new BatonError('session_busy', 'the run before this one is being stopped');
  return second;
}

async function take(asked: AskedCompletion, canWait: boolean): Promise<TakenCompletion | NotYetTaken> {
  const { deps, caller, body, sessionName, split } = asked;
  const results = resultsOf(split.news);
  const meant = { tenantId: caller.tenantId, name: sessionName, agentName: body.model };
  const session = results.size === 0 ? null : await sessionOfCalls(deps, meant, results);
  const taken = session === null ? null : await takeResults(asked, session, results, canWait);
  if (taken !== null) return taken;
  if (split.news.some(({ role }) => role === 'user')) return takeInSession(asked, canWait);
  throw new ProblemError('conflict', 'No run waits for these results of tools');
}

/** After the commit: tells the session's readers and adds the job of the run. */
async function tellTaken(deps: HttpDeps, taken: TakenCompletion): Promise<void> {
  const { sessionId, answered, accepted, joined, resumed } = taken;
  if (answered !== undefined) await tellAnswered(deps, answered);
  if (accepted !== null) await afterAccepted(deps, sessionId, accepted);
  if (joined !== undefined) await afterAccepted(deps, sessionId, joined);
  if (resumed !== undefined) await afterChanged(deps, sessionId, resumed);
}
