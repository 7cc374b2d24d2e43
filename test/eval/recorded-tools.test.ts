import { expect, test } from 'vitest';
import type { Mismatch } from '../../eval/mismatch.ts';
import { createRecordedTools } from '../../eval/recorded-tools.ts';
import { recordingOf } from './replay-fixture.ts';

const look = (id: string, input: object, output: string, isError?: boolean) => ({
  id,
  name: 'look',
  input,
  output,
  ...(isError === undefined ? {} : { isError }),
});
const step = (text: string, ...toolCalls: readonly object[]) => ({
  type: 'step',
  text,
  toolCalls,
  finishReason: 'tool-calls',
});

const RECORDING = recordingOf([
  step('', look('a', { at: 1 }, 'one'), look('a', { at: 1 }, 'one again')),
  step('No calls.'),
  step('Some text.', look('a', { at: 2 }, 'two'), look('b', {}, 'not there', true)),
]);

function setUp() {
  const mismatches: Mismatch[] = [];
  const [tool, ...others] = createRecordedTools(RECORDING, (mismatch) => mismatches.push(mismatch));
  expect(others).toEqual([]);
  /** @param place message and index: `m1:2` */
  const run = async (place: string, toolCallId: string, input: object) =>
    tool?.execute(input, {
      callKey: `call_${place.replace(/m(\d):/, (_, no) => `${no.repeat(32)}_`)}`,
      toolCallId,
      tenantId: 'default',
      sessionId: 's',
      runId: 'r',
      signal: new AbortController().signal,
      isShownWhole: () => true,
    });
  return { mismatches, run };
}

test('each call gets the output of its own place, whichever of a batch comes first', async () => {
  const { mismatches, run } = setUp();
  await expect(run('m1:2', 'a', { at: 1 })).resolves.toBe('one again');
  await expect(run('m1:1', 'a', { at: 1 })).resolves.toBe('one');
  await expect(run('m2:2', 'a', { at: 2 })).resolves.toBe('two');
  await expect(run('m2:3', 'b', {})).rejects.toThrow('not there');
  expect(mismatches).toEqual([]);
});

test.each([
  ['another input', 'm1:1', 'a', { at: 3 }],
  ['another id', 'm1:1', 'b', { at: 1 }],
  ['another place', 'm1:3', 'a', { at: 1 }],
])('a call with %s fails and is reported', async (_what, place, toolCallId, input) => {
  const { mismatches, run } = setUp();
  await expect(run(place, toolCallId, input)).rejects.toThrow('not in the recording');
  expect(mismatches).toEqual([expect.objectContaining({ at: 'call of look' })]);
});

test('a call beyond the recorded steps fails and is reported', async () => {
  const { mismatches, run } = setUp();
  await run('m1:1', 'a', { at: 1 });
  await run('m2:2', 'a', { at: 2 });
  await expect(run('m3:1', 'a', { at: 1 })).rejects.toThrow('not in the recording');
  expect(mismatches).toHaveLength(1);
});
