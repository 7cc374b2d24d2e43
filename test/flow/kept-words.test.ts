import { expect, it } from 'vitest';
import type { Reply } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { readingReplies } from '../compaction/compaction-support.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { startScenario } from './context-scenario.ts';

const MODEL = { provider: 'simulated', model: 'test', maxOutput: 4_000 };

const TASK = Array.from({ length: 700 }, (_, at) => `field_${at}: a name, and what it means in words`).join('\n');

/** Reads the two items that the summary names: the middle of the task, and the file. */
function readingAgain({ messages }: SimulatedRequest): Reply {
  const shown = messages.map(({ text }) => text).join('\n');
  const [, task] = /<first_user_message id="(msg_\d+)"/.exec(shown) ?? [];
  const [, file] = /^(file_\d+_\d+) image\/png plan\.png$/m.exec(shown) ?? [];
  return {
    toolCalls: [
      { name: 'read_tool_output', input: { id: task, search: 'field_350:' } },
      { name: 'read_tool_output', input: { id: file } },
    ],
  };
}

it('a task of 30 000 characters and its file can be read again after each of three compactions in 32k', async () => {
  expect(TASK.length).toBeGreaterThan(30_000);
  await using scenario = await startScenario({
    window: 32_000,
    models: [{ ...MODEL, contextWindow: 32_000 }],
    context: { prune: { enabled: false } },
  });
  const { simulator } = scenario.service;
  const attached = { type: 'file', mediaType: 'image/png', filename: 'plan.png' };
  const task = [
    { type: 'text', text: TASK },
    { ...attached, url: `data:image/png;base64,${PNG_BASE64}` },
  ];
  for (const said of [task, 'Go on.', 'And on.']) {
    simulator.script('test', readingReplies(4, 1_000));
    expect(await scenario.ask(said)).toMatchObject({ status: 'completed' });
    simulator.script('test', [{ text: 'What does the middle say?' }]);
    await scenario.ask('Now another matter.');
    expect(await scenario.ended((await scenario.compact()).runId)).toMatchObject({ status: 'completed' });
    simulator.script('test', (request) =>
      request.messages.at(-1)?.role === 'tool' ? { text: 'Read.' } : readingAgain(request),
    );
    expect(await scenario.ask('What does its middle say, and what is on the picture?')).toMatchObject({ steps: 2 });
    const last = simulator.requests.findLast(({ summary }) => !summary);
    const results = last?.request?.messages.flatMap(({ toolResults }) => toolResults.map(({ output }) => output)) ?? [];
    expect(results.join('\n')).toContain('field_350: a name, and what it means in words');
    expect(last?.rawBody).toContain(PNG_BASE64);
  }
  const rounds = await scenario.rounds();
  expect(rounds.filter(({ state }) => state === 'completed').length).toBeGreaterThanOrEqual(3);
});

it('an agent without tools is offered the reader once its view was compacted', async () => {
  await using scenario = await startScenario({
    window: 16_000,
    models: [{ ...MODEL, contextWindow: 16_000 }],
    context: { prune: { enabled: false } },
    agent: { tools: [] },
  });
  const { simulator } = scenario.service;
  const toolsOffered = () => simulator.requests.at(-1)?.request?.tools.map(({ name }) => name);
  simulator.script('test', [{ text: 'Yes.'.repeat(200) }, { text: 'No.'.repeat(200) }]);
  await scenario.ask(TASK.slice(0, 24_000));
  await scenario.ask('Now another matter.');
  expect(toolsOffered()).toEqual([]);
  expect(await scenario.ended((await scenario.compact()).runId)).toMatchObject({ status: 'completed' });
  simulator.script('test', [
    { toolCalls: [{ name: 'read_tool_output', input: { id: 'msg_1', search: 'field_50:' } }] },
    { text: 'Read.' },
  ]);
  expect(await scenario.ask('What is field 50?')).toMatchObject({ status: 'completed', steps: 2 });
  expect(toolsOffered()).toContain('read_tool_output');
  const results = simulator.requests.at(-1)?.request?.messages.at(-1)?.toolResults ?? [];
  expect(results.map(({ output }) => output).join('\n')).toContain('field_50: a name');
});
