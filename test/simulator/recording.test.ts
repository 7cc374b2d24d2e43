import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  END_OF_RECORDING,
  parseRecording,
  RecordingError,
  readRecording,
  replayScript,
  stepsOf,
} from '../../simulator/recording.ts';
import { startSimulator } from '../../simulator/server.ts';
import { PROTOCOLS, runStep } from './client.ts';

const look = (id: string, path: string) => ({ id, name: 'look', input: { path }, output: 'seen' });
const LINES = [
  {
    type: 'transcript',
    name: 'small',
    model: 'old-model',
    source: 'test',
    commit: 'c',
    licence: 'MIT',
    contextWindow: 1000,
  },
  { type: 'user', text: 'Look around.' },
  {
    type: 'step',
    text: 'I look.',
    reasoning: 'Where first?',
    toolCalls: [look('t1', 'a'), { ...look('t2', 'b'), isError: true }],
    usage: { input: 100, cacheRead: 60, cacheWrite: 40, output: 9 },
    finishReason: 'tool-calls',
  },
  { type: 'user', text: 'Faster!' },
  { type: 'step', text: 'All seen.', toolCalls: [], finishReason: 'stop' },
];
const TEXT = LINES.map((line) => JSON.stringify(line)).join('\n');

describe.each(PROTOCOLS)('replay through %s', (protocol) => {
  test('answers with the recorded steps, one cursor per cache key, and then the end mark', async () => {
    await using simulator = await startSimulator();
    simulator.script('*', replayScript(parseRecording(TEXT)));
    const first = await runStep(simulator.url, protocol, { cacheKey: 'a' });
    expect(first.text).toBe('I look.');
    expect(first.calls).toEqual([
      { toolCallId: 't1', toolName: 'look', input: { path: 'a' } },
      { toolCallId: 't2', toolName: 'look', input: { path: 'b' } },
    ]);
    expect(first.finish?.usage).toMatchObject({ inputTokens: 100, outputTokens: 9 });
    expect(first.finish?.finishReason).toBe('tool-calls');
    const texts = [];
    for (const cacheKey of ['b', 'a', 'a', 'a'])
      texts.push((await runStep(simulator.url, protocol, { cacheKey })).text);
    expect(texts).toEqual(['I look.', 'All seen.', END_OF_RECORDING, END_OF_RECORDING]);
  });

  test('repeats a step that was not delivered whole', async () => {
    await using simulator = await startSimulator();
    simulator.script('*', replayScript(parseRecording(TEXT)));
    simulator.fault('*', { kind: 'error-in-stream', afterChunks: 1, code: 'server_error', message: 'x' });
    expect((await runStep(simulator.url, protocol)).error).toBeDefined();
    expect((await runStep(simulator.url, protocol)).calls).toHaveLength(2);
  });

  test('holds the end of a gated step after all its content', async () => {
    await using simulator = await startSimulator();
    const gateFor = (step: number) => (step === 0 ? 'after-first' : undefined);
    simulator.script('*', replayScript(parseRecording(TEXT), { gateFor }));
    let seen = '';
    const step = runStep(simulator.url, protocol, {
      onPart: (part) => {
        if (part.type === 'text-delta') seen += part.text;
      },
    });
    await simulator.gate('after-first').reached;
    const [record] = simulator.requests;
    const chunksAtGate = record?.chunksSent;
    expect(record?.outcome).toBe('in-progress');
    simulator.gate('after-first').release();
    await step;
    expect(record?.chunksSent).toBe(chunksAtGate);
    expect(seen).toBe('I look.');
  });
});

test('a step whose calls the client does not show was stopped, and is answered again, but not for ever', async () => {
  await using simulator = await startSimulator();
  simulator.script('*', replayScript(parseRecording(TEXT), { repeatsStopped: true }));
  const first = await runStep(simulator.url, 'chat');
  const texts = [];
  for (let repeat = 0; repeat < 4; repeat += 1) texts.push((await runStep(simulator.url, 'chat')).text);
  expect(texts).toEqual(['I look.', 'I look.', 'I look.', 'All seen.']);
  simulator.script('*', replayScript(parseRecording(TEXT), { repeatsStopped: true }));
  await runStep(simulator.url, 'chat');
  const messages = [{ role: 'user' as const, content: 'Look around.' }, ...(await first.messages())];
  const results = first.calls.map(({ toolCallId, toolName }) => ({
    ...{ type: 'tool-result' as const, toolCallId, toolName },
    output: { type: 'text' as const, value: 'seen' },
  }));
  const taken = await runStep(simulator.url, 'chat', { messages: [...messages, { role: 'tool', content: results }] });
  expect(taken.text).toBe('All seen.');
});

test('Responses: replay brings the recorded reasoning', async () => {
  await using simulator = await startSimulator();
  simulator.script('*', replayScript(parseRecording(TEXT)));
  expect((await runStep(simulator.url, 'responses')).reasoning).toBe('Where first?');
});

describe('reading a recording', () => {
  test('gives the header and the entries of a file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'recording-'));
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, 'r.jsonl'), `${TEXT}\n`);
    const recording = await readRecording(join(folder, 'r.jsonl'));
    expect(recording.header).toMatchObject({ name: 'small', contextWindow: 1000 });
    expect(recording.entries.map(({ type }) => type)).toEqual(['user', 'step', 'user', 'step']);
    expect(stepsOf(recording)).toHaveLength(2);
  });

  test.each([
    ['', 'empty'],
    ['{"type":"user","text":"x"}', 'Line 1'],
    [`${JSON.stringify(LINES[0])}\n{"type":`, 'Line 2 of the recording is not JSON'],
    [`${TEXT}\n{"type":"step","text":"x"}`, 'Line 6'],
    [`${TEXT}\n{"type":"user","text":"x","sneaky":1}`, 'sneaky'],
  ])('names the line that is wrong in %j', (text, message) => {
    expect(() => parseRecording(text)).toThrow(RecordingError);
    expect(() => parseRecording(text)).toThrow(message);
  });
});
