import { afterAccepted, afterChanged } from '../../commands/after-commit.ts';
import type { Caller } from '../../domain/access.ts';
import { leavesCallsOpen, type SplitConversation, splitConversation } from '../../domain/transcript/conversation.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { tellAnswered } from '../answer-calls.ts';
import { type AskedCompletion, refuse, type TakenCompletion } from './asked-completion.ts';
import { conversationOf, outputOf, ownerOf, toolChoiceProblem } from './completion-request.ts';
import { hashOf, readForHash } from './conversation-hash.ts';
import { takeInSession } from './take-in-session.ts';
import { takeResults } from './take-results.ts';
import { resultsOf, sessionOfCalls } from './tool-results.ts';

export type StartedCompletion = Readonly<{
  caller: Caller;
  /** The client asked for JSON. */
  isJson: boolean;
}> &
  Pick<AskedCompletion, 'conversation' | 'owner' | 'asked' | 'readerId' | 'sessionName'> &
  Pick<TakenCompletion, 'sessionId' | 'runId' | 'accepted' | 'continued' | 'usedBefore'>;

type Request = Pick<AskedCompletion, 'body' | 'sessionName' | 'repetition' | 'signal'>;

/**
 * Takes the new part of a request: results of calls go to the run that waits for them, messages to the conversation's
 * session. An unknown conversation is imported; a repeated request is taken once.
 * @throws BatonError as `acceptMessage` and `inChatSession`; ProblemError `invalid_request`, `conflict`
 */
export async function startCompletion(deps: HttpDeps, caller: Caller, request: Request): Promise<StartedCompletion> {
  const { body, sessionName, repetition } = request;
  const conversation = conversationOf(body);
  const split = splitConversation(conversation);
  refuseUnanswerable(split);
  const problem = toolChoiceProblem(body);
  if (problem !== null) refuse('tool_choice', problem);
  await readForHash(conversation);
  const owner = [...ownerOf(body), sessionName ?? null];
  const asked = hashOf(owner, conversation);
  const messageId =
    repetition.key === null
      ? deps.newId()
      : derivedId('openai', caller.tenantId, body.model, repetition.key, Buffer.from(asked).toString('hex'));
  const place = { conversation, owner, asked, readerId: deps.newId() };
  const taken = await take({ deps, caller, ...request, split, messageId, ...place });
  await tellTaken(deps, taken);
  return { caller, sessionName, isJson: outputOf(body) !== undefined, ...place, ...taken };
}

function refuseUnanswerable(split: SplitConversation): void {
  if (split.news.length === 0) {
    throw new ProblemError('invalid_request', 'messages: the last one must be of the user or a tool');
  }
  if (!leavesCallsOpen(split)) return;
  refuse('messages', 'the calls of the assistant’s last message need a message of role tool each');
}

async function take(asked: AskedCompletion): Promise<TakenCompletion> {
  const { deps, caller, body, sessionName, split } = asked;
  const results = resultsOf(split.news);
  const meant = { tenantId: caller.tenantId, name: sessionName, agentName: body.model };
  const session = results.size === 0 ? null : await sessionOfCalls(deps, meant, results);
  const taken = session === null ? null : await takeResults(asked, session, results);
  if (taken !== null) return taken;
  if (split.news.some(({ role }) => role === 'user')) return takeInSession(asked);
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
