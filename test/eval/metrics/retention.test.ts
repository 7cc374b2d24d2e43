import { expect, test } from 'vitest';
import { editedFiles, errorResultsKept, fileRecall, stepsWithoutUser } from '../../../eval/metrics/retention.ts';
import { stepCalls } from '../../../eval/metrics/traced-call.ts';
import { recordingOf } from '../replay-fixture.ts';
import { callOf, refused, requestOf, resultOf, said } from './journal-fixture.ts';

const user = (text: string) => ({ type: 'user', text });
const step = (...toolCalls: readonly object[]) => ({ type: 'step', text: '', toolCalls, finishReason: 'stop' });
const call = (name: string, input: object, more: object = {}) => ({ id: name, name, input, output: 'ok', ...more });
const callWith = (...texts: readonly string[]) =>
  callOf({ request: requestOf(...texts.map((text) => said('user', text))) });

test('a step without the first or the latest user message as it was given is found, whatever was refused between', () => {
  const recording = recordingOf([user('Build it.'), step(), user('Faster\u0000!'), step(), step()]);
  const latest = 'Faster\ufffd!';
  const calls = [
    callWith('Build it.'),
    refused({ request: requestOf(said('user', 'x')) }),
    callOf({ summary: true }),
    callWith('summary: Build it. and so on', latest),
  ];
  expect(stepsWithoutUser(recording, stepCalls(recording, [...calls, callWith('Build it.', latest)]))).toEqual([]);
  expect(stepsWithoutUser(recording, stepCalls(recording, [...calls, callWith('Build it.')]))).toEqual([2]);
  expect(stepsWithoutUser(recording, stepCalls(recording, [...calls, callWith('Build', latest)]))).toEqual([2]);
  const byAssistant = callOf({ request: requestOf(said('assistant', 'Build it.'), said('user', latest)) });
  expect(stepsWithoutUser(recording, stepCalls(recording, [...calls, byAssistant]))).toEqual([2]);
});

test('the request after the last step is held to the last thing the user said', () => {
  const recording = recordingOf([user('Build it.'), step(), user('Faster!')]);
  expect(stepsWithoutUser(recording, stepCalls(recording, [callWith('Build it.'), callWith('Build it.')]))).toEqual([
    1,
  ]);
});

test('of a long first message the beginning is enough, but not of the latest', () => {
  const long = 'word '.repeat(4000);
  const recording = recordingOf([user(long), step(), user('Go on.'), step()]);
  expect(
    stepsWithoutUser(recording, stepCalls(recording, [callWith(long), callWith(long.slice(0, 9000), 'Go on.')])),
  ).toEqual([]);
  expect(stepsWithoutUser(recording, stepCalls(recording, [callWith(long.slice(0, 9000))]))).toEqual([0]);
});

test('edited files are those that an editing tool wrote to', () => {
  const recording = recordingOf([
    user('Go.'),
    step(call('read', { path: 'a' }), call('edit', { path: 'b' }), call('Write', { file_path: 'c' })),
    step(call('str_replace_editor', { command: 'view', path: 'd' }), call('edit', { path: 'b' })),
    step(call('str_replace_editor', { command: 'create', path: 'e' }), call('write', { path: 'f' }, { isError: true })),
    step(call('update_reservation', { path: 'g' }), call('edit', { text: 'no path' })),
  ]);
  expect(editedFiles(recording)).toEqual(['b', 'c', 'e']);
  expect(fileRecall(['b', 'c', 'e', 'x'], 'b, c and e')).toBe(0.75);
  expect(fileRecall([], '')).toBe(1);
});

test('failed results count as kept where they are shown as they were, and not at all where they are not shown', () => {
  const failed = { id: 'e', name: 'look', input: {}, output: 'it "is" not there', isError: true };
  const twice = { ...failed, id: 'twice', output: 'gone' };
  const recording = recordingOf([user('Go.'), step(failed, twice, { ...twice, isError: false })]);
  const shown = (...outputs: readonly string[]) =>
    stepCalls(
      recording,
      outputs.map((output) => callOf({ request: requestOf(resultOf('e', output), resultOf('twice', 'x')) })),
    );
  expect(
    errorResultsKept(
      recording,
      shown('Error: it "is" not there', '{"error":"it \\"is\\" not there"}', '[cleared]', '', ''),
    ),
  ).toBe(0.4);
  expect(errorResultsKept(recording, stepCalls(recording, [callOf()]))).toBe(1);
});
