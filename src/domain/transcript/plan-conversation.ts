import type { RequiredAction } from './required-action.ts';

/** The new part of a request whose client sends its whole conversation. */
export type ConversationNews = Readonly<{
  /** The user says something. False: the request brings results alone. */
  hasMessage: boolean;
  /** Ids of the calls whose results the request brings. */
  callIds: readonly string[];
  /** They are the results of all calls of the assistant's last message, which the request has too. */
  answersCalls: boolean;
}>;

/** Results of a request that a run of the session got before. */
export type EarlierResults = Readonly<{
  runId: string;
  /** False: other results than now. */
  isSame: boolean;
  /** The run that answers them: the one that got them or a later one. Null: it was stopped. */
  answeringRunId: string | null;
}>;

/** A session that may be that of the conversation, as its lock shows it. */
export type ConversationFacts<Message, Results extends EarlierResults = EarlierResults> = Readonly<{
  /** The client names the session itself. */
  isNamed: boolean;
  /** The agent of the session, if it is another than the request's. */
  otherAgent: string | null;
  /** Actions that the active run and runs below it wait for. */
  openActions: readonly RequiredAction[];
  earlierResults: Results | null;
  /** The message of an earlier request that this one repeats. */
  earlierMessage: Message | null;
  /** The newest message came with exactly this conversation. */
  isSameQuestion: boolean;
  /** The session has exactly the messages that the request repeats, and no later ones. */
  isSameHistory: boolean;
}>;

export type ConversationPlan<Message, Results> = Readonly<
  /** The waiting run gets the results of these calls, and joins the user's message to them. */
  | { kind: 'answer'; callIds: readonly string[]; openActions: readonly RequiredAction[] }
  /** The answer to a message that was accepted before. */
  | { kind: 'replay-message'; message: Message }
  /** The answer to results that a run got before. */
  | { kind: 'replay-results'; results: Results; answeringRunId: string }
  /** The session resumes: the earlier message is parked, or the run with the results was stopped. */
  | { kind: 'resume'; message: Message | null }
  /** The session accepts the message. */
  | { kind: 'continue' }
  /** Another session may be that of the conversation. */
  | { kind: 'pass' }
  | { kind: 'refuse'; code: 'conflict' | 'already_answered'; message: string }
>;

type Refusal = Extract<ConversationPlan<never, never>, { kind: 'refuse' }>;

const NOBODY_WAITS: Refusal = {
  kind: 'refuse',
  code: 'conflict',
  message:
    'No run waits for these results of tools. Send the assistant’s message with its calls, and a result for each, to import them',
};

/** The client that sent the tools answers these calls. It knows nothing of the tools of a run below. */
export const isOfClient = ({ kind, child }: RequiredAction): boolean => kind === 'output' && child === undefined;

/**
 * Decides about a conversation that no session knows. `begin`: it is imported into a new session, which accepts the
 * message, or goes on with the results of another service's calls. Pure.
 */
export const planUnknownConversation = ({
  hasMessage,
  answersCalls,
}: ConversationNews): Readonly<{ kind: 'begin' }> | Refusal =>
  hasMessage || answersCalls ? { kind: 'begin' } : NOBODY_WAITS;

/**
 * Decides what a session does with a request. Results go before the message: they belong to one run alone. Pure.
 */
export function planConversation<Message extends Readonly<{ isParked?: true }>, Results extends EarlierResults>(
  news: ConversationNews,
  facts: ConversationFacts<Message, Results>,
): ConversationPlan<Message, Results> {
  const { isNamed, otherAgent, earlierMessage: message } = facts;
  if (otherAgent !== null) {
    if (!isNamed) return { kind: 'pass' };
    return { kind: 'refuse', code: 'conflict', message: `the conversation is one with the agent ${otherAgent}` };
  }
  const forResults = planResults(news, facts);
  if (forResults !== null) return forResults;
  if (message !== null) return message.isParked ? { kind: 'resume', message } : { kind: 'replay-message', message };
  if (!news.hasMessage) return isNamed ? NOBODY_WAITS : { kind: 'pass' };
  if (isNamed) return refuseBeforeResults(facts) ?? { kind: 'continue' };
  return facts.isSameHistory && news.callIds.length === 0 ? { kind: 'continue' } : { kind: 'pass' };
}

/** Null: no run of the session asked for any of the results, or their message is new. */
function planResults<Message, Results extends EarlierResults>(
  { hasMessage, callIds }: ConversationNews,
  { openActions, earlierResults: results, earlierMessage, isSameQuestion }: ConversationFacts<Message, Results>,
): ConversationPlan<Message, Results> | null {
  const answered = openActions.filter(({ id, kind }) => kind !== 'approval' && callIds.includes(id));
  if (answered.length > 0) {
    const open = openActions.filter(({ id }) => !callIds.includes(id));
    return { kind: 'answer', callIds: answered.map(({ id }) => id), openActions: open };
  }
  if (results === null) return null;
  if (!results.isSame) {
    return { kind: 'refuse', code: 'already_answered', message: 'these calls have other results already' };
  }
  if (hasMessage && !isSameQuestion && earlierMessage === null) return null;
  const { answeringRunId } = results;
  return answeringRunId === null
    ? { kind: 'resume', message: null }
    : { kind: 'replay-results', results, answeringRunId };
}

/** A message would wait for ever behind a run that waits for the client's own results. */
function refuseBeforeResults({ openActions }: ConversationFacts<unknown>): Refusal | null {
  const open = openActions.filter(isOfClient).map(({ id }) => id);
  if (open.length === 0) return null;
  const message = `The run waits for the results of these calls first: ${open.join(', ')}`;
  return { kind: 'refuse', code: 'conflict', message };
}
