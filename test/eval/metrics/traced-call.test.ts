import { expect, test } from 'vitest';
import { stepCalls } from '../../../eval/metrics/traced-call.ts';
import { recordingOf } from '../replay-fixture.ts';
import { callOf, refused, requestOf, said } from './journal-fixture.ts';

const call = (id: string) => ({ id, name: 'look', input: {}, output: 'seen' });
const step = (...ids: readonly string[]) => ({
  type: 'step',
  text: '',
  toolCalls: ids.map(call),
  finishReason: 'stop',
});
const showing = (...ids: readonly string[]) =>
  callOf({ request: requestOf(said('user', 'Go.'), said('assistant', '', { toolCalls: ids.map(call) })) });

test('each request is for the step after those whose calls it shows, however often that was asked for', () => {
  const recording = recordingOf([{ type: 'user', text: 'Go.' }, step('a'), step('b', 'c'), step(), step()]);
  const calls = [
    showing(),
    refused({ refusal: 'window' }),
    showing('a'),
    // The answer with b and c was stopped: a summary is made, and the step is asked for again.
    callOf({ summary: true }),
    showing('a'),
    showing('c-7-2'),
    callOf({ outcome: 'aborted-by-client' }),
    showing(),
  ];
  expect(stepCalls(recording, calls).map((each) => each.step)).toEqual([0, 1, 1, 2, 3]);
});
