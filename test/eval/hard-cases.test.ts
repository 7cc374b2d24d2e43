import { describe, expect, test } from 'vitest';
import { END_OF_RECORDING } from '../../simulator/recording.ts';
import { type Backend, mismatchesOf, recordingOf, replayOn } from './replay-fixture.ts';

const call = (id: string, name: string, input: object, output: string, isError?: boolean) => ({
  id,
  name,
  input,
  output,
  ...(isError === undefined ? {} : { isError }),
});
const user = (text: string) => ({ type: 'user', text });
const step = (text: string, toolCalls: readonly object[] = [], more: object = {}) => ({
  type: 'step',
  text,
  toolCalls,
  finishReason: toolCalls.length > 0 ? 'tool-calls' : 'stop',
  ...more,
});

const FAMILY = '👩‍👩‍👧‍👦';
const MIXED = `${FAMILY.repeat(20)} Grüße, 你好, שלום, é\u0301 \u2028 "quoted" \\n ${'🙂'.repeat(200)}`;

/** Rare features of real conversations; each line is a case of its own. */
const HARD = recordingOf(
  [
    user('First.'),
    user(`Second, before anybody worked: ${MIXED}`),
    step('', [
      call('c1', 'look', { at: 'a' }, 'first of c1'),
      call('c1', 'look', { at: 'a' }, 'second of c1, same id, name and input'),
      call('c1', 'touch', { at: 'a' }, 'third of c1, another tool'),
      call('c2', 'look', {}, ''),
    ]),
    user('Sent while it worked.'),
    user('And once more.'),
    step('The id again.', [call('c1', 'look', { at: 'b' }, 'c1 of a later step')], {
      reasoning: `Where was it? ${MIXED}`,
      usage: { input: 1200, cacheRead: 1000, cacheWrite: 7, output: 30 },
    }),
    step('Errors.', [call('e1', 'touch', {}, 'it does not exist', true), call('e2', 'touch', {}, '', true)]),
    step(MIXED, [
      call('u1', 'look', { deep: { list: [MIXED, null, 1.5, true, []], empty: {} } }, MIXED),
      call('u2', 'look', {}, 'NUL \u0000, high \ud83d, low \ude42, both \ud83d\ude42.'),
    ]),
    step('Nobody waits yet.'),
    user('Sent when the answer was there,'),
    user('and another one: the run goes on.'),
    step('It went on.', [], { finishReason: 'length', usage: { input: 10, cacheRead: 0, output: 3 } }),
    user('A new run.'),
    step('', [], { reasoning: 'Nothing to say.' }),
    user('Another.'),
    step('Last look.', [call('c2', 'look', {}, 'c2 again')]),
    user('Nobody answers this in the recording.'),
  ],
  { system: `You look and touch. ${MIXED}` },
);

describe.each<Backend>(['postgres', 'redis'])('on %s', (backend) => {
  test('repeated ids, empty and broken outputs, errors, any script and messages at any moment are stored as recorded', async (context) => {
    const result = await replayOn(backend, context, HARD);
    expect(mismatchesOf(result)).toEqual([]);
    expect(result).toMatchObject({ steps: 8, toolCalls: 10, userMessages: 9 });
    const parts = result.transcript.flatMap((message) => message.parts);
    const output = parts.find((part) => part.type === 'tool' && part.toolCallId === 'u2');
    expect(output).toMatchObject({ output: { type: 'text', value: 'NUL \ufffd, high \ufffd, low \ufffd, both 🙂.' } });
    expect(parts.at(-1)).toMatchObject({ type: 'text', text: END_OF_RECORDING });
  });

  test('messages sent at the end of a run continue that run, and one sent later starts another', async (context) => {
    const recording = recordingOf([
      user('Go.'),
      step('Done.'),
      user('More,'),
      user('and more.'),
      step('Done again.'),
      user('Later.'),
      step('Done at last.'),
    ]);
    const result = await replayOn(backend, context, recording);
    expect(mismatchesOf(result)).toEqual([]);
    const runIds = result.transcript.filter(({ role }) => role === 'assistant').map(({ runId }) => runId);
    expect(runIds[1]).toBe(runIds[0]);
    expect(runIds[2]).not.toBe(runIds[0]);
  });

  test('a run that cannot go on midway is reported, and so is all that is missing after it', async (context) => {
    const recording = recordingOf([
      user('Go.'),
      step('Look.', [call('a', 'look', {}, 'seen')]),
      step('Done.'),
      user('word '.repeat(8000)),
      step('Never said.'),
    ]);
    const result = await replayOn(backend, context, recording, { window: 4000 });
    expect(mismatchesOf(result)).toEqual([
      expect.stringMatching(/^run: expected the recorded end, found The run ended as incomplete .*context_exhausted/),
      expect.stringMatching(/^line 6 \(step\): expected a message, found none/),
    ]);
    expect(result.context).toMatchObject({ calls: 2, exhausted: 1, orphans: 0, invalidViews: 0 });
  });
});
