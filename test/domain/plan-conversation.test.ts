import { describe, expect, it } from 'vitest';
import {
  type ConversationFacts,
  type ConversationNews,
  type EarlierResults,
  planConversation,
  planUnknownConversation,
} from '../../src/domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../../src/domain/transcript/required-action.ts';

type Message = Readonly<{ id: string; isParked?: true }>;
type Facts = ConversationFacts<Message>;

const action = (id: string, change: Partial<RequiredAction> = {}): RequiredAction => ({
  ...{ id, kind: 'output', messageId: 'msg_1', toolName: 'weather', args: {} },
  ...change,
});
const child = { sessionId: 'ses_2', runId: 'run_2', agent: 'helper' };

const NOTHING: Facts = {
  isNamed: false,
  otherAgent: null,
  openActions: [],
  earlierResults: null,
  earlierMessage: null,
  isSameQuestion: false,
  isSameHistory: false,
};
const message = (...callIds: string[]): ConversationNews => ({ hasMessage: true, callIds, answersCalls: false });
const results = (...callIds: string[]): ConversationNews => ({ hasMessage: false, callIds, answersCalls: false });
const earlier: EarlierResults = { runId: 'run', isSame: true, answeringRunId: 'run' };
const later: EarlierResults = { ...earlier, answeringRunId: 'later' };
const stopped: EarlierResults = { ...earlier, answeringRunId: null };
const accepted: Message = { id: 'accepted' };
const parked: Message = { id: 'parked', isParked: true };

const refusal = (words: string, code = 'conflict') => ({
  kind: 'refuse',
  code,
  message: expect.stringContaining(words),
});
const answer = (callIds: readonly string[], openActions: readonly RequiredAction[] = []) => ({
  kind: 'answer',
  callIds,
  openActions,
});
const replayOf = (of: EarlierResults) => ({
  kind: 'replay-results',
  results: of,
  answeringRunId: of.answeringRunId,
});

describe('the plan of a session for a request', () => {
  it.each<[string, ConversationNews, Partial<Facts>, object]>([
    // A session that its client does not name.
    ['a message after the history that it has answered', message(), { isSameHistory: true }, { kind: 'continue' }],
    ['a message after another history', message(), {}, { kind: 'pass' }],
    ['a message with unknown results', message('a'), { isSameHistory: true }, { kind: 'pass' }],
    ['a message of another agent', message(), { isSameHistory: true, otherAgent: 'b' }, { kind: 'pass' }],
    ['a message again', message(), { earlierMessage: accepted }, { kind: 'replay-message', message: accepted }],
    ['a message again that is parked', message(), { earlierMessage: parked }, { kind: 'resume', message: parked }],
    [
      'a message again whose answer is the history',
      message(),
      { earlierMessage: accepted, isSameHistory: true },
      { kind: 'replay-message', message: accepted },
    ],
    ['the question without a sign that it is made again', message(), { isSameQuestion: true }, { kind: 'pass' }],
    ['unknown results', results('a'), {}, { kind: 'pass' }],
    [
      'imported results again',
      { ...results('a'), answersCalls: true },
      { earlierMessage: accepted },
      { kind: 'replay-message', message: accepted },
    ],

    // A session that its client names.
    ['a message by name', message(), { isNamed: true }, { kind: 'continue' }],
    ['a message by name with unknown results', message('a'), { isNamed: true }, { kind: 'continue' }],
    [
      'a message by name, again',
      message(),
      { isNamed: true, earlierMessage: accepted },
      { kind: 'replay-message', message: accepted },
    ],
    [
      'a message by name before the results of two calls',
      message(),
      { isNamed: true, openActions: [action('a'), action('b')] },
      refusal('these calls first: a, b'),
    ],
    [
      'a message by name, again, before results',
      message(),
      { isNamed: true, openActions: [action('a')], earlierMessage: accepted },
      { kind: 'replay-message', message: accepted },
    ],
    [
      'a message by name before an approval',
      message(),
      { isNamed: true, openActions: [action('a', { kind: 'approval' })] },
      { kind: 'continue' },
    ],
    [
      'a message by name before the result of a call of a child',
      message(),
      { isNamed: true, openActions: [action('a', { child })] },
      { kind: 'continue' },
    ],
    ['a message by name for another agent', message(), { isNamed: true, otherAgent: 'b' }, refusal('the agent b')],
    ['unknown results by name', results('a'), { isNamed: true }, refusal('No run waits')],

    // Results that a run waits for.
    ['results', results('a'), { openActions: [action('a')] }, answer(['a'])],
    ['results and a message', message('a'), { openActions: [action('a')] }, answer(['a'])],
    [
      'results of some calls',
      results('a', 'z'),
      { openActions: [action('a'), action('b')] },
      answer(['a'], [action('b')]),
    ],
    [
      'results of a call of unknown outcome',
      results('a'),
      { openActions: [action('a', { kind: 'unknown_outcome' })] },
      answer(['a']),
    ],
    ['a result for an approval', results('a'), { openActions: [action('a', { kind: 'approval' })] }, { kind: 'pass' }],
    ['results for another agent', results('a'), { openActions: [action('a')], otherAgent: 'b' }, { kind: 'pass' }],

    // Results that a run has had.
    ['the same results', results('a'), { earlierResults: earlier }, replayOf(earlier)],
    ['the same results, of a run that was followed', results('a'), { earlierResults: later }, replayOf(later)],
    [
      'the same results, of a stopped run',
      results('a'),
      { earlierResults: stopped },
      { kind: 'resume', message: null },
    ],
    [
      'other results',
      results('a'),
      { earlierResults: { ...earlier, isSame: false } },
      refusal('other results', 'already_answered'),
    ],
    [
      'the same results and message as the newest question',
      message('a'),
      { earlierResults: earlier, isSameQuestion: true },
      replayOf(earlier),
    ],
    [
      'the same results and message by key',
      message('a'),
      { earlierResults: earlier, earlierMessage: accepted },
      replayOf(earlier),
    ],
    ['the same results and a new message', message('a'), { earlierResults: earlier }, { kind: 'pass' }],
    [
      'the same results and a new message by name',
      message('a'),
      { earlierResults: earlier, isNamed: true },
      { kind: 'continue' },
    ],
  ])('%s', (_, news, facts, plan) => {
    expect(planConversation(news, { ...NOTHING, ...facts })).toEqual(plan);
  });

  it('begins with a message, or the results of the last calls, and refuses other results alone', () => {
    expect(planUnknownConversation(message('a'))).toEqual({ kind: 'begin' });
    expect(planUnknownConversation({ ...results('a'), answersCalls: true })).toEqual({ kind: 'begin' });
    expect(planUnknownConversation(results('a'))).toEqual(refusal('No run waits'));
  });
});
