import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { agentScript } from '../../simulator/lead-script.ts';
import type { SimulatedMessage, SimulatedRequest } from '../../simulator/request.ts';
import { childInputSchema } from '../../src/domain/run/child.ts';

const HELPER = { name: 'helper', description: 'Helps.', inputSchema: z.toJSONSchema(childInputSchema) };

const message = (role: SimulatedMessage['role'], more: Partial<SimulatedMessage>): SimulatedMessage => ({
  ...{ role, text: '', toolCalls: [], toolResults: [], parts: [] },
  ...more,
});

const request = (...messages: SimulatedMessage[]): SimulatedRequest => ({
  ...{ protocol: 'responses', model: 'any', system: '', messages, tools: [HELPER], cacheKey: '', index: 0 },
  ...{ maxOutputTokens: undefined, toolChoice: 'auto', stream: true },
});

const tasksOf = (text: string): unknown[] =>
  (agentScript(request(message('user', { text }))).toolCalls ?? []).map(({ input }) => Object(input).task);

describe('the simulated model of an agent that leads', () => {
  it('gives out the questions of its task at the same time', () => {
    expect(tasksOf('Check the shop: Who pays? Is it free? Why? And so on?')).toEqual([
      'Who pays?',
      'Is it free?',
      'Why?',
    ]);
  });

  it('looks from three sides at a task without questions', () => {
    const tasks = tasksOf('Check the shop.');
    expect(new Set(tasks).size).toBe(3);
    for (const task of tasks) expect(task).toContain('Check the shop.');
  });

  it('answers from what came back, also from a failure', () => {
    const asked = message('user', { text: 'Who pays? Is it free?' });
    const calls = agentScript(request(asked)).toolCalls ?? [];
    const given = message('assistant', {
      toolCalls: calls.map(({ id = '', name, input }) => ({ id, name, input })),
    });
    const found = { status: 'completed', answer: 'Hello.\n\n“pay” occurs in 1 line of 1 file:\n- a.js:1: pay()' };
    const outputs = [found, { status: 'failed', session: 'ses_1' }].map((output) => JSON.stringify(output));
    const results = calls.map(({ id = '' }, index) => ({ id, output: outputs[index] ?? '' }));
    const { text, toolCalls } = agentScript(request(asked, given, message('tool', { toolResults: results })));
    expect(toolCalls).toBeUndefined();
    expect(text).toContain('1. Who pays?\n“pay” occurs in 1 line of 1 file:\n- a.js:1: pay()');
    expect(text).toContain('2. Is it free?\nIt ended as failed:');
  });

  it('leaves the work of an agent without helpers to the script for files', () => {
    const tools = [{ name: 'list_files', description: '', inputSchema: { type: 'object', properties: {} } }];
    const { toolCalls } = agentScript({ ...request(message('user', { text: 'Look.' })), tools });
    expect(toolCalls).toMatchObject([{ name: 'list_files' }]);
  });
});
