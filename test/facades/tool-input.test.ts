import type { UIMessage } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

type Call = Readonly<{ toolCallId: string; state: string; input?: { at?: string } }>;

const callsIn = (message: UIMessage | undefined): readonly Call[] =>
  (message?.parts ?? []).flatMap((part) => (part.type === 'tool-look' ? [part as unknown as Call] : []));

const LONG = Array.from({ length: 100 }, (_, n) => `line ${n} `).join('');

describe('a long input of a call', () => {
  let started: ChatService;
  beforeAll(async () => {
    const agents = ['simulated', 'simulated-chat', 'simulated-anthropic'].map((provider) => {
      return { name: provider, model: `${provider}/${provider}`, tools: ['test'] };
    });
    started = await startChatService(agents, createWaitingTools().tools);
  });
  afterAll(() => started[Symbol.asyncDispose]());

  it.each(['simulated', 'simulated-chat', 'simulated-anthropic'])('is seen while %s writes it', async (provider) => {
    const { simulator, deps } = started.service;
    const gate = `${provider} writes`;
    simulator.script(provider, [
      {
        text: 'I look at two places, one after the other.',
        toolCalls: [
          { name: 'look', input: { at: 'the first place' } },
          { name: 'look', input: { at: LONG } },
        ],
        chunkChars: 15,
        gates: { afterChunks: { count: 20, gate } },
      },
      { text: 'Seen.' },
    ]);
    const chat = started.chat(provider, { body: { agent: provider } });
    const sent = chat.sendMessage({ text: 'Look.' });
    await simulator.gate(gate).reached;
    const [first, second] = await eventually(async () => {
      const calls = callsIn(chat.lastMessage);
      return (calls[1]?.input?.at ?? '').length > 20 ? calls : null;
    }, 'the page shows the beginning of the input');
    expect(first?.input).toEqual({ at: 'the first place' });
    expect(second?.state).toBe('input-streaming');
    expect(LONG.startsWith(second?.input?.at ?? '-')).toBe(true);
    expect(second?.input?.at?.length).toBeLessThan(LONG.length);
    // The unfinished call is not stored: a worker that recovers the step must not find half a call.
    const stored = await deps.db.selectFrom('parts').select('idx').where('state', '=', 'pending').execute();
    expect(stored).toEqual([]);
    simulator.gate(gate).release();
    await sent;
    const ended = callsIn(chat.lastMessage);
    expect(ended.map(({ toolCallId }) => toolCallId)).toEqual([first?.toolCallId, second?.toolCallId]);
    expect(ended).toMatchObject([{ state: 'output-available' }, { state: 'output-available', input: { at: LONG } }]);
  });

  it('that is broken off by a stop is a call that was not finished', async () => {
    const { simulator } = started.service;
    simulator.script('simulated', [
      {
        toolCalls: [{ name: 'look', input: { at: LONG } }],
        chunkChars: 15,
        gates: { afterChunks: { count: 10, gate: 'stopped' } },
      },
    ]);
    const chat = started.chat('stopped', { body: { agent: 'simulated' } });
    const sent = chat.sendMessage({ text: 'Look.' });
    await simulator.gate('stopped').reached;
    await eventually(async () => callsIn(chat.lastMessage).length === 1, 'the page shows the call');
    await fetch(`${started.url}/api/chat/stopped/stop`, { method: 'POST' });
    await sent;
    expect(callsIn(chat.lastMessage)).toMatchObject([
      { state: 'output-error', errorText: 'The call was not finished.' },
    ]);
  });
});
