import { expect, test } from 'vitest';
import { keptNeedles, plantNeedles } from '../../../eval/metrics/needles.ts';
import { recordingOf } from '../replay-fixture.ts';

const user = (text: string) => ({ type: 'user', text });
const step = (text: string, ...outputs: readonly { output: string; isError?: boolean }[]) => ({
  type: 'step',
  text,
  toolCalls: outputs.map((output, index) => ({ id: `c${index}`, name: 'look', input: {}, ...output })),
  finishReason: 'stop',
});
const LINES = [
  user('Go.'),
  step('I look.', { output: 'seen' }, { output: 'broken', isError: true }),
  step('', { output: 'more' }),
  user('And now?'),
  step('Done.'),
];

test('each class is planted in its own kind of place, once, and always in the same', () => {
  const { recording, needles } = plantNeedles(recordingOf(LINES));
  expect(plantNeedles(recordingOf(LINES))).toEqual({ recording, needles });
  expect(needles.map((needle) => needle.class)).toEqual([
    ...['error', 'id', 'id', 'constraint', 'constraint', 'decision', 'decision'],
  ]);
  const places = needles.map(({ text }) =>
    recording.entries.flatMap((entry) => {
      if (entry.type === 'user') return entry.text.includes(text) ? ['user'] : [];
      const calls = entry.toolCalls.filter(({ output }) => output.includes(text));
      return [
        ...(entry.text.includes(text) ? ['step'] : []),
        ...calls.map(({ isError }) => (isError ? 'error' : 'ok')),
      ];
    }),
  );
  expect(places).toEqual([['error'], ['ok'], ['ok'], ['user'], ['user'], ['step'], ['step']]);
});

test('everything else stays as recorded', () => {
  const { recording, needles } = plantNeedles(recordingOf(LINES));
  const clean = (text: string) => {
    const lines = text.split('\n').filter((line) => !needles.some((needle) => line.includes(needle.text)));
    return lines.join('\n');
  };
  const entries = recording.entries.map((entry) =>
    entry.type === 'user'
      ? { ...entry, text: clean(entry.text) }
      : {
          ...entry,
          text: clean(entry.text),
          toolCalls: entry.toolCalls.map((call) => ({ ...call, output: clean(call.output) })),
        },
  );
  expect(entries).toEqual(recordingOf(LINES).entries);
});

test('where no call failed one is made to', () => {
  const lines = [user('Go.'), step('', ...['a', 'b', 'c', 'd', 'e'].map((output) => ({ output })))];
  const { recording, needles } = plantNeedles(recordingOf(lines));
  const [, work] = recording.entries;
  const calls = work?.type === 'step' ? work.toolCalls : [];
  expect(calls.map(({ isError }) => isError === true)).toEqual([true, true, true, false, false]);
  expect(needles.filter((needle) => needle.class === 'id')).toHaveLength(2);
});

test('a needle is kept in the view, in a summarizer’s input or in a stored output, and lost elsewhere', () => {
  const needle = (kind: 'id' | 'error', text: string) => ({ class: kind, text });
  const needles = [needle('id', 'n1'), needle('id', 'n2'), needle('error', 'n3'), needle('error', 'n4')];
  const places = { lastView: 'a n1 b', summaryInputs: ['x', 'n3'], storedOutputs: ['n4'] };
  expect(keptNeedles(needles, places)).toEqual({ id: 0.5, error: 1 });
});
