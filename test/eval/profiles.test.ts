import { expect, test } from 'vitest';
import { SESSION_PROFILES } from '../../simulator/profiles.ts';
import { mismatchesOf, recordingOf, replayOn } from './replay-fixture.ts';

const call = (id: string, output: string, isError = false) => ({
  id,
  name: 'look',
  input: { at: id },
  output,
  ...(isError && { isError }),
});
const step = (text: string, toolCalls: readonly object[] = [], more: object = {}) => ({
  type: 'step',
  text,
  toolCalls,
  finishReason: toolCalls.length > 0 ? 'tool-calls' : 'stop',
  ...more,
});
const user = (text: string) => ({ type: 'user', text });

/** What endpoints differ in: ids, messages between a result and the next step, thoughts before calls, failed calls. */
const RECORDING = recordingOf([
  user('Look around.'),
  step('I look.', [call('toolu_01', 'a harbor'), call('functions.look:1', 'a ship')], { reasoning: 'Two places.' }),
  user('And behind you.'),
  step('', [call('call_3', 'Nothing is there.', true)], { reasoning: 'Behind, then.' }),
  step('A harbor with a ship.', [], { reasoning: 'That is all.' }),
  user('Thanks.'),
  step('You are welcome.'),
]);

test.for(SESSION_PROFILES)('a conversation over %s is stored as recorded', async (profile, context) => {
  const result = await replayOn('postgres', context, RECORDING, { profile });
  expect(mismatchesOf(result)).toEqual([]);
  expect(result).toMatchObject({ steps: 4, toolCalls: 3, userMessages: 3 });
});
