import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type BatonOptions, defineAgent, simulated, testContext, tool } from '../../src/library/baton.ts';
import { startInProcess } from './support.ts';

const status = tool({
  description: 'Says how an order is.',
  inputSchema: z.object({ order: z.string() }),
  execute: ({ order }) => `${order} was shipped`,
  readOnly: true,
});

async function ask(agent: Omit<NonNullable<BatonOptions['agents']>[number], 'name'>, ...questions: string[]) {
  await using started = await startInProcess(() => ({ agents: [defineAgent({ ...agent, name: 'clerk' })] }));
  const { baton } = started;
  await baton.startWorker();
  const { id } = await baton.client.sessions.create({ agent: 'clerk' });
  const answers = [];
  for (const question of questions) answers.push(await baton.client.ask(id, question));
  return answers;
}

describe('the simulated model', () => {
  it('plays a list of answers, calls of tools among them, and begins again at its end', async () => {
    const model = simulated([
      { toolCalls: [{ tool: 'status', input: { order: 'order-7' } }] },
      { text: 'It was shipped.' },
    ]);
    const answers = await ask({ model, tools: { status } }, 'Where is order-7?', 'And now?');
    expect(answers.map(({ text, run }) => [text, run.steps])).toEqual([
      ['It was shipped.', 2],
      ['It was shipped.', 2],
    ]);
  });

  it('answers by a function of what it is told', async () => {
    const model = simulated(({ no, text, results, tools }) =>
      no === 1
        ? { toolCalls: [{ tool: tools.includes('status') ? 'status' : '', input: { order: text } }] }
        : `It says: ${results.map(({ output }) => output).join()}`,
    );
    const [answer] = await ask({ model, tools: { status } }, 'order-8');
    expect(answer?.text).toBe('It says: order-8 was shipped');
  });

  it.each(['auto', 'native', 'tool', 'last'] as const)('gives the result that a run is asked for: %s', async (mode) => {
    const { $schema: _dialect, ...schema } = z.toJSONSchema(z.object({ total: z.number() }));
    const model = simulated(() => ({ result: { total: 42 } }));
    const [answer] = await ask({ model, output: { schema: { ...schema, type: 'object' }, mode } }, 'How much?');
    expect(answer?.output).toEqual({ total: 42 });
  });

  it('repeats what it is told without a script, and is one model for several agents', async () => {
    expect(simulated()).toBe(simulated());
    expect(simulated(['a'])).not.toBe(simulated(['b']));
    const [answer] = await ask({ model: simulated() }, 'Hello there');
    expect(answer?.text).toBe('You said: Hello there');
  });
});

it.each([[[]], [null], [[null]], ['a']])('a script that has no answers is refused: %j', (script) => {
  expect(() => simulated(script as never)).toThrow(expect.objectContaining({ code: 'config_invalid' }));
});

it('the context for tests lets a tool be called by itself', async () => {
  expect(await status.execute({ order: 'order-9' }, testContext())).toBe('order-9 was shipped');
  expect(testContext({ tenantId: 'acme' })).toMatchObject({ tenantId: 'acme', toolCallId: 'call_1' });
});
