import { expect, test } from 'vitest';
import { planDeliveries } from '../../eval/deliveries.ts';
import { recordingOf } from './replay-fixture.ts';

const user = (text: string) => ({ type: 'user', text });
const answer = { type: 'step', text: 'Done.', toolCalls: [], finishReason: 'stop' };
const work = {
  type: 'step',
  text: '',
  toolCalls: [{ id: 'a', name: 'look', input: {}, output: '' }],
  finishReason: 'tool-calls',
};

test('messages are sent before the first step, during steps that go on, and to an idle session after an answer', () => {
  const lines = [
    user('1'),
    user('2'),
    work,
    user('3'),
    work,
    work,
    answer,
    user('4'),
    answer,
    user('5'),
    user('6'),
    answer,
  ];
  const { deliveries, gateFor, asksOnceMore } = planDeliveries(recordingOf(lines));
  expect(deliveries).toEqual([
    { when: 'opening', texts: ['1', '2'] },
    { when: 'during', step: 0, gate: gateFor(0), texts: ['3'] },
    { when: 'idle', texts: ['4'] },
    { when: 'during', step: 4, gate: gateFor(4), texts: ['5', '6'] },
  ]);
  expect([0, 1, 2, 3, 4, 5].map((step) => gateFor(step) !== undefined)).toEqual([
    true,
    false,
    false,
    false,
    true,
    false,
  ]);
  expect(asksOnceMore).toBe(false);
});

test.each([
  ['a user message', [user('1'), answer, user('2')]],
  ['two user messages', [user('1'), answer, user('2'), user('3')]],
  ['tool calls', [user('1'), work]],
  ['nothing but a user message', [user('1')]],
])('a recording that ends with %s makes the service ask once more', (_what, lines) => {
  expect(planDeliveries(recordingOf(lines)).asksOnceMore).toBe(true);
});

test.each([[[]], [[answer]], [[answer, user('1')]]])(
  'a recording that does not begin with a user message is refused',
  (lines) => {
    expect(() => planDeliveries(recordingOf(lines))).toThrow('does not begin with a user message');
  },
);
