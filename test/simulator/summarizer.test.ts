import type { ModelMessage } from 'ai';
import { expect, test } from 'vitest';
import { parseRecording, replayScript } from '../../simulator/recording.ts';
import { startSimulator } from '../../simulator/server.ts';
import { countText } from '../../simulator/tokens.ts';
import {
  PRUNING_REQUEST_MARK,
  SUMMARY_REQUEST_MARK,
  SUMMARY_SECTIONS,
} from '../../src/domain/context/compaction/summary-marks.ts';
import { runStep } from './client.ts';

const user = (content: string): ModelMessage => ({ role: 'user', content });
const HISTORY: ModelMessage[] = [
  user('Rename ticket ABC-1234 <summary> # now'),
  { role: 'assistant', content: `I look at it. ${'It is a long story. '.repeat(50)}` },
];
const ask = (mark = SUMMARY_REQUEST_MARK): ModelMessage[] => [...HISTORY, user(`${mark}\nWrite it.`)];

test('a summary request is answered with every section in order, made of the request and equal each time', async () => {
  await using simulator = await startSimulator();
  const first = await runStep(simulator.url, 'responses', { messages: ask() });
  const second = await runStep(simulator.url, 'chat', { messages: ask() });
  expect(first.finish?.finishReason).toBe('stop');
  expect(first.text.split('\n').filter((line) => line.startsWith('## '))).toEqual(SUMMARY_SECTIONS);
  expect(first.text).toContain('Rename ticket ABC-1234');
  expect(first.text.split('## Facts and ids\n')[1]).toMatch(/^ABC-1234/);
  expect(first.text).not.toMatch(/[<>]/);
  expect(second.text).toBe(first.text);
  expect(simulator.requests.map(({ summary }) => summary)).toEqual([true, true]);
});

test('a summary has about the size that is asked for, and is cut at the output limit', async () => {
  await using simulator = await startSimulator();
  simulator.summaries([{ mode: 'ok', tokens: 900 }, 'ok']);
  const long = await runStep(simulator.url, 'responses', { messages: ask() });
  expect(countText(long.text)).toBeGreaterThan(850);
  expect(countText(long.text)).toBeLessThan(1000);
  const cut = await runStep(simulator.url, 'responses', { messages: ask(), maxOutputTokens: 50 });
  expect(countText(cut.text)).toBeLessThanOrEqual(50);
  expect(cut.finish?.finishReason).toBe('length');
});

test('each summary can fail in its own way, once in order and then in one way for good', async () => {
  await using simulator = await startSimulator();
  simulator.summaries(['empty', 'cut', 'longer', 'garbage', '429', 'overflow'], 'garbage');
  const results = [];
  for (let round = 0; round < 7; round += 1) results.push(await runStep(simulator.url, 'chat', { messages: ask() }));
  const [empty, cut, longer, garbage, limited, overflow, last] = results;
  expect(empty?.text).toBe('');
  expect(cut).toMatchObject({ text: expect.stringContaining('## Goal'), finish: { finishReason: 'length' } });
  expect(cut?.text).not.toContain('## Calls in progress');
  expect(countText(longer?.text ?? '')).toBeGreaterThan(simulator.requests[2]?.promptTokens ?? Infinity);
  expect(garbage?.text).not.toContain('##');
  expect(garbage?.text).not.toBe('');
  expect(limited?.error).toMatchObject({ statusCode: 429 });
  expect(overflow?.error).toMatchObject({ statusCode: 400, data: { error: { code: 'context_length_exceeded' } } });
  expect(last?.text).toBe(garbage?.text);
});

test('a summary that hangs sends nothing and ends when the client leaves', async () => {
  await using simulator = await startSimulator();
  simulator.summaries(['hang']);
  const leaving = new AbortController();
  const step = runStep(simulator.url, 'responses', { messages: ask(), signal: leaving.signal }).catch(() => undefined);
  await simulator.waitForRequest(({ summary }) => summary);
  leaving.abort();
  await step;
  const record = await simulator.waitForRequest(({ outcome }) => outcome === 'aborted-by-client');
  expect(record).toMatchObject({ status: 0, chunksSent: 0, usage: undefined });
});

test('a pruning request is answered with the JSON it asks for, or with what is none', async () => {
  await using simulator = await startSimulator();
  simulator.summaries(['ok', 'garbage']);
  const messages = ask(PRUNING_REQUEST_MARK);
  const pruned = JSON.parse((await runStep(simulator.url, 'responses', { messages })).text);
  expect(pruned).toEqual({
    prunedConversation: expect.arrayContaining([{ role: 'user', content: expect.stringContaining('Rename') }]),
    summary: expect.any(String),
    originalTokens: expect.any(Number),
    prunedTokens: expect.any(Number),
  });
  const garbage = await runStep(simulator.url, 'responses', { messages });
  expect(() => JSON.parse(garbage.text)).toThrow();
});

test('summary requests take neither a step of the script, nor a fault, nor the place in the prompt cache', async () => {
  await using simulator = await startSimulator();
  const lines = [
    { type: 'transcript', name: 'small', model: 'm' },
    { type: 'step', text: 'One.', toolCalls: [], finishReason: 'stop' },
    { type: 'step', text: 'Two.', toolCalls: [], finishReason: 'stop' },
  ];
  const recording = parseRecording(lines.map((line) => JSON.stringify(line)).join('\n'));
  simulator.script('*', replayScript(recording));
  const cacheKey = 'a';
  const first = await runStep(simulator.url, 'responses', { cacheKey, messages: HISTORY.slice(0, 1) });
  await runStep(simulator.url, 'responses', { cacheKey, messages: [user(`Other. ${SUMMARY_REQUEST_MARK}`)] });
  simulator.fault('*', { kind: 'overloaded' });
  await runStep(simulator.url, 'responses', { cacheKey, messages: ask() });
  expect((await runStep(simulator.url, 'responses', { cacheKey, messages: ask().slice(0, 1) })).error).toBeDefined();
  const second = await runStep(simulator.url, 'responses', { cacheKey, messages: [...HISTORY, user('Go on.')] });
  expect([first.text, second.text]).toEqual(['One.', 'Two.']);
  expect(simulator.requests.map(({ extendsPrefix }) => extendsPrefix)).toEqual([true, false, true, true, true]);
  expect(simulator.requests[4]?.cachedTokens).toBe((simulator.requests[0]?.promptTokens ?? 0) - 3);
});

test('a compacted history gets the next step all the same, and refused calls none', async () => {
  await using simulator = await startSimulator();
  const step = (no: number) => ({ type: 'step', text: `Step ${no}.`, toolCalls: [], finishReason: 'stop' });
  const lines = [{ type: 'transcript', name: 'small', model: 'm' }, step(1), step(2), step(3)];
  simulator.script('*', replayScript(parseRecording(lines.map((line) => JSON.stringify(line)).join('\n'))));
  simulator.setWindow('m', 250);
  const ask = async (...messages: ModelMessage[]) => (await runStep(simulator.url, 'chat', { messages })).text;
  expect(await ask(user('a'))).toBe('Step 1.');
  expect(await ask(...HISTORY, user('b'))).toBe('');
  expect(await ask(user('what came before, as a summary'), { role: 'assistant', content: 'c' }, user('d'))).toBe(
    'Step 2.',
  );
  expect(await ask(user('a shorter summary'))).toBe('Step 3.');
  expect(simulator.requests.map(({ refusal }) => refusal)).toEqual([undefined, 'window', undefined, undefined]);
});
