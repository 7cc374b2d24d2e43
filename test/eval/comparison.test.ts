import { expect, test } from 'vitest';
import { compareTranscript } from '../../eval/compare-transcript.ts';
import type { Recording } from '../../simulator/recording.ts';
import { mismatchesOf, recordingOf, replayOn } from './replay-fixture.ts';

const LINES = [
  { type: 'user', text: 'Look.' },
  {
    type: 'step',
    text: 'I look.',
    reasoning: 'Where?',
    toolCalls: [
      { id: 'a', name: 'look', input: { at: 1 }, output: 'seen' },
      { id: 'b', name: 'touch', input: { at: 2 }, output: 'hot', isError: true },
    ],
    usage: { input: 100, cacheRead: 60, output: 9 },
    finishReason: 'tool-calls',
  },
  { type: 'user', text: 'Well?' },
  { type: 'step', text: 'All seen.', toolCalls: [], finishReason: 'stop' },
] as const;
const [opening, first, question, last] = LINES;
const [look, touch] = first.toolCalls;

const TAMPERED: readonly (readonly [string, readonly object[], string])[] = [
  ['a user text', [{ ...opening, text: 'Look!' }, first, question, last], 'line 2 (user), part 1 (text), text'],
  ['a text', [opening, { ...first, text: 'I look' }, question, last], 'line 3 (step), part 3 (text), text'],
  ['a reasoning', [opening, { ...first, reasoning: 'Who?' }, question, last], 'part 2 (reasoning), text'],
  ['a missing reasoning', [opening, { ...first, reasoning: '' }, question, last], 'line 3 (step), part 2, type'],
  ['a call id', [opening, withCalls({ ...look, id: 'x' }, touch), question, last], 'part 4 (tool), toolCallId'],
  ['a tool name', [opening, withCalls({ ...look, name: 'x' }, touch), question, last], 'part 4 (tool), toolName'],
  ['an input', [opening, withCalls({ ...look, input: { at: 3 } }, touch), question, last], 'part 4 (tool), input'],
  ['an output', [opening, withCalls({ ...look, output: 'Seen' }, touch), question, last], 'part 4 (tool), output'],
  ['an error flag', [opening, withCalls(look, { ...touch, isError: false }), question, last], 'part 5 (tool), state'],
  ['the order of calls', [opening, withCalls(touch, look), question, last], 'part 4 (tool), toolCallId'],
  ['a call that was not made', [opening, withCalls(look, touch, look), question, last], 'line 3 (step), part 6, type'],
  ['a call too many', [opening, withCalls(look), question, last], 'line 3 (step), part 5, type'],
  ['a finish reason', [opening, first, question, { ...last, finishReason: 'length' }], 'line 5 (step), finish reason'],
  ['prompt tokens', [opening, withUsage({ input: 101 }), question, last], 'line 3 (step), usage'],
  ['cached tokens', [opening, withUsage({ cacheRead: 61 }), question, last], 'line 3 (step), usage'],
  ['output tokens', [opening, withUsage({ output: 8 }), question, last], 'line 3 (step), usage'],
  ['the order of messages', [opening, question, first, last], 'line 2 (user), part 1 (text), queuedNo'],
  ['a message that was not sent', [...LINES, opening], 'line 6 (user): expected a message, found none'],
  ['a message too many', [opening, first, question], 'after the recording'],
];

function withCalls(...toolCalls: readonly object[]): object {
  return { ...first, toolCalls };
}

function withUsage(usage: object): object {
  return { ...first, usage: { ...first.usage, ...usage } };
}

test('whatever the recording says otherwise than the stored transcript is a mismatch that names its place', async (context) => {
  const result = await replayOn('postgres', context, recordingOf(LINES));
  expect(mismatchesOf(result)).toEqual([]);
  const compare = (recording: Recording) =>
    mismatchesOf({ ...result, mismatches: compareTranscript(recording, result.transcript, { asksOnceMore: false }) });
  expect(compare(recordingOf(LINES))).toEqual([]);
  for (const [what, lines, place] of TAMPERED) {
    const found = compare(recordingOf(lines));
    expect(found.join('\n'), what).toContain(place);
  }
  const [described] = compare(recordingOf([{ ...opening, text: 'Look!' }, first, question, last]));
  expect(described).toBe('line 2 (user), part 1 (text), text: expected "Look!", found "Look."');
});

test('a summary and the beginning of an answer that was stopped stand beside the conversation', async (context) => {
  const result = await replayOn('postgres', context, recordingOf(LINES));
  const [said, step, ...rest] = result.transcript;
  if (said === undefined || step === undefined) throw new Error('nothing was stored');
  const summary = { ...said, parts: [{ type: 'compaction' as const, text: 'What came before.' }] };
  const stopped = (text: string) => ({
    ...step,
    finishReason: 'length',
    parts: [{ type: 'step-start' as const }, { type: 'text' as const, text }],
  });
  const compare = (...messages: typeof result.transcript) =>
    compareTranscript(recordingOf(LINES), messages, { asksOnceMore: false });
  expect(compare(said, stopped('I lo'), summary, step, ...rest)).toEqual([]);
  expect(compare(said, stopped('I do'), step, ...rest)).not.toEqual([]);
  expect(compare(said, stopped('I lo'), ...rest)).not.toEqual([]);
});
