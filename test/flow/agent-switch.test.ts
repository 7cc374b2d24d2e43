import { describe, expect, it } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { switchAgent } from '../../src/store/changes/switch-agent.ts';
import { readContext } from '../../src/store/session/context.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { startTestService, type TestService } from '../support/service.ts';

const toolOf = (name: string): Tool => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: 'object' },
  execute: async () => `done ${name}`,
});

function changeTo(service: TestService, sessionId: string, fields: object) {
  const snapshot = agentSchema.parse({ name: 'other', model: 'simulated/other', ...fields });
  const kept = { name: snapshot.name, version: agentVersion(snapshot), snapshot, overrides: {} };
  return service.deps.db.transaction().execute((tx) => switchAgent(tx, { tenantId: 'default', sessionId }, () => kept));
}

describe('a session that gets another model', () => {
  it('keeps what was said, and sends reasoning back only to the model that wrote it', async () => {
    await using service = await startTestService({ backend: 'postgres', tools: [toolOf('look')] });
    const { simulator, deps } = service;
    const thinks = (reasoning: string, text: string) => [{ reasoning, text }];
    simulator.script('test', [...thinks('I think A.', 'A.'), ...thinks('I think C.', 'C.')]);
    simulator.script('other', thinks('I think B.', 'B.'));
    await service.startWorker();
    const session = await service.createSession();
    const say = async (text: string) => service.ended((await service.send(session, text)).runId);
    await say('one');
    const anchored = (await readContext(deps.db, 'default', session)).contextState;
    expect(anchored).toMatchObject({ model: 'simulated/test', anchor: { messageSeq: 2 } });

    await changeTo(service, session, { instructions: 'You are the other one.' });
    expect((await readContext(deps.db, 'default', session)).contextState.anchor).toBeNull();
    await say('two');
    await changeTo(service, session, { name: 'tester', model: 'simulated/test', tools: ['test'] });
    await say('three');

    const [first, second, third] = simulator.requests;
    expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
    const reasoningOf = (record: typeof first) =>
      record?.request?.messages.flatMap(({ parts }) =>
        parts.flatMap((part) => (part.type === 'reasoning' ? [part.summary] : [])),
      );
    expect(second).toMatchObject({ model: 'other', request: { system: 'You are the other one.', tools: [] } });
    expect(second?.request?.messages.map(({ text }) => text)).toEqual(['one', 'A.', 'two']);
    expect(reasoningOf(second)).toEqual([]);
    expect(third?.request?.messages.map(({ text }) => text)).toEqual(['one', 'A.', 'two', 'B.', 'three']);
    expect(reasoningOf(third)).toEqual(['I think A.']);
    expect(third?.request?.tools.map(({ name }) => name)).toContain('look');
    const events = await readEvents(deps.db, 'default', session, { afterSeq: 0, limit: 1_000 });
    expect(events.filter(({ type }) => type === 'llm:switched').map(({ data }) => data)).toEqual([
      { from: 'simulated/test', to: 'simulated/other', agent: 'other' },
      { from: 'simulated/other', to: 'simulated/test', agent: 'tester' },
    ]);
    expect(events.filter(({ type }) => type === 'llm:response').map(({ data }) => data['model'])).toEqual([
      'test',
      'other',
      'test',
    ]);
  });

  it('while a run is at work asks it at the next step, and measures without what the other was billed', async () => {
    await using service = await startTestService({ backend: 'postgres', tools: [toolOf('look')] });
    const { simulator } = service;
    const gate = simulator.gate('answering');
    const toolCalls = [{ name: 'look', input: {} }];
    simulator.script('test', [{ toolCalls, gates: { beforeEnd: 'answering' } }]);
    simulator.script('other', [{ text: 'I go on.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go.');
    await gate.reached;
    await changeTo(service, session, { tools: [] });
    gate.release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(simulator.requests.map(({ model }) => model)).toEqual(['test', 'other']);
    expect(simulator.requests[1]?.request?.messages.at(-1)?.toolResults).toMatchObject([{ output: 'done look' }]);
    const measured = service.logged.filter(({ event }) => event === 'context_measured');
    expect(measured).toMatchObject([{ isAnchored: false }, { isAnchored: false }]);
  });
});
