import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../src/tools/define-tool.ts';
import type { ToolContext } from '../../src/tools/tool.ts';

const context: ToolContext = {
  signal: new AbortController().signal,
  callKey: 'message:1',
  toolCallId: 'call_1',
  tenantId: 'default',
  sessionId: 'ses_1',
  runId: 'run_1',
};
const base = { name: 'add', description: 'Adds.' };

describe('a tool that is defined with zod', () => {
  const add = defineTool({
    ...base,
    inputSchema: z.object({ a: z.string().transform(Number), b: z.number().default(2) }),
    idempotent: true,
    execute: ({ a, b }, { callKey }) => ({ sum: a + b, callKey }),
  });

  it('shows the model what it may write, and gets its input parsed', async () => {
    expect(add).toMatchObject({ name: 'add', description: 'Adds.', idempotent: true });
    expect(add.inputSchema).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'number', default: 2 } },
      required: ['a'],
    });
    expect(await add.execute({ a: '3' }, context)).toEqual({ sum: 5, callKey: 'message:1' });
  });

  it('is not run with input that does not fit: the model reads what is wrong', async () => {
    await expect(add.execute({ a: 3 }, context)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(/^Invalid input:\n.*expected string.*\n.*at a$/s),
    });
  });

  it('is refused where its input is no object', () => {
    expect(() => defineTool({ ...base, inputSchema: z.string(), execute: () => null })).toThrow(
      'the input schema of tool add is not one of an object',
    );
  });
});

describe('a tool that is defined with a JSON Schema', () => {
  const echo = defineTool({ ...base, inputSchema: { type: 'object' }, execute: (input) => input });

  it('gets what the model wrote, and may answer at once', async () => {
    expect(echo.inputSchema).toEqual({ type: 'object' });
    expect(await echo.execute({ any: 'thing' }, context)).toEqual({ any: 'thing' });
  });

  it('asks for an approval by the parsed input, and for none where that does not fit', async () => {
    const tool = defineTool({
      name: 'pay',
      description: 'Pays.',
      inputSchema: z.object({ amount: z.coerce.number() }),
      needsApproval: ({ amount }) => amount > 10,
      execute: () => 'paid',
    });
    const { needsApproval } = tool;
    if (typeof needsApproval !== 'function') throw new Error('it is asked by input');
    expect(await Promise.all(['11', 9, 'much'].map((amount) => needsApproval({ amount })))).toEqual([
      true,
      false,
      false,
    ]);
  });
});
