import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { Script } from '../../simulator/reply.ts';
import type { Agent } from '../../src/agents/agent.ts';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { pauseModel } from '../../src/store/work/provider-pauses.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { prose } from '../compaction/compaction-support.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const backend = anyBackend();
const AGENT = { model: 'simulated/first', fallbacks: ['simulated-chat/second', 'simulated/third'] };
const DOWN = { status: 503 } as const;

async function start(scripts: Readonly<Record<string, Script>>) {
  const look: Tool = {
    name: 'look',
    description: 'Looks.',
    inputSchema: { type: 'object', additionalProperties: true },
    execute: async () => 'a harbor',
  };
  const service = await startTestService({ backend, tools: [look] });
  for (const [name, script] of Object.entries(scripts)) service.simulator.script(name, script);
  await service.startWorker();
  return service;
}

async function run(service: TestService, agent: Partial<Agent> = AGENT, text = 'Where are we?') {
  const sessionId = await service.createSession(agent);
  const ended = await service.ended((await service.send(sessionId, text)).runId);
  const events = await readEvents(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });
  const switches = events.flatMap(({ type, data }) => (type === 'llm:switched' ? [data] : []));
  const messages = await listMessages(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 100 });
  const answers = messages.filter(({ role }) => role === 'assistant').map(({ model }) => model);
  return { ended, events, switches, answers, sessionId };
}

const asked = ({ simulator }: TestService) => simulator.requests.map(({ model }) => model);
const violations = ({ simulator }: TestService) => simulator.requests.flatMap((request) => request.violations);

describe('a run whose model cannot answer', () => {
  it('goes on with the next one, also after calls, and stays there', async () => {
    const call = { toolCalls: [{ id: 'c', name: 'look', input: {} }] };
    await using service = await start({
      first: [call],
      second: [call, { text: 'In a harbor.' }],
    });
    service.simulator.script('first', ({ index }) => (index === 0 ? call : { fault: DOWN }));
    const { ended, switches, answers, events } = await run(service);
    expect(ended).toMatchObject({ status: 'completed', step_count: 3 });
    expect(switches).toEqual([{ from: 'simulated/first', to: 'simulated-chat/second', reason: 'overloaded' }]);
    expect(answers).toEqual(['simulated/first', 'simulated-chat/second', 'simulated-chat/second']);
    expect(asked(service)).toEqual(['first', 'first', 'first', 'second', 'second']);
    expect(events.filter(({ type }) => type === 'llm:response').map(({ data }) => data['model'])).toEqual([
      'first',
      'second',
      'second',
    ]);
    expect(violations(service)).toEqual([]);
  });

  it('begins the next run with its first model again', async () => {
    await using service = await start({ second: [{ text: 'Here.' }], first: [{ text: 'Again here.' }] });
    service.simulator.fault('first', [DOWN, DOWN]);
    const { sessionId } = await run(service);
    await service.ended((await service.send(sessionId, 'And now?')).runId);
    expect(asked(service)).toEqual(['first', 'first', 'second', 'first']);
  });

  it('tries the whole list, and fails as the last one does', async () => {
    await using service = await start({
      first: () => ({ fault: DOWN }),
      second: () => ({ fault: DOWN }),
      third: () => ({ fault: { status: 401 } }),
    });
    const { ended, switches } = await run(service);
    expect(ended).toMatchObject({ status: 'failed', error: { code: 'auth' } });
    expect(switches.map(({ to }) => to)).toEqual(['simulated-chat/second', 'simulated/third']);
  });

  it.each([400, 401, 403, 404, 413, 422])('stays with it after %i', async (status) => {
    await using service = await start({
      first: () => ({ fault: { status, body: { error: { message: 'Not this one.' } } } }),
      second: [{ text: 'never' }],
    });
    const { ended, switches } = await run(service);
    expect(ended.status).toMatch(/failed|incomplete/);
    expect(switches).toEqual([]);
    expect(asked(service)).not.toContain('second');
  });

  it.each([
    ['that asks for a long wait', { status: 429, headers: { 'retry-after': '60' } }, 'rate_limited', 1],
    ['that answers nothing', null, 'empty_answer', 1],
    ['that has no quota left', { status: 429, body: { error: { code: 'insufficient_quota' } } }, 'quota', 1],
    ['that times out behind its gateway', { status: 408 }, 'timeout', 1],
    ['that fails', { status: 500 }, 'transport', 2],
    ['that is overloaded', { status: 529 }, 'overloaded', 2],
  ] as const)('leaves one %s', async (_what, fault, reason, attempts) => {
    await using service = await start({
      first: () => (fault === null ? { text: '' } : { fault }),
      second: [{ text: 'Here.' }],
    });
    const { ended, switches } = await run(service);
    expect(ended).toMatchObject({ status: 'completed' });
    expect(switches).toMatchObject([{ reason }]);
    expect(asked(service).filter((model) => model === 'first')).toHaveLength(attempts);
  });

  it('without a list keeps its empty answer', async () => {
    await using service = await start({ first: () => ({ text: '' }) });
    const { ended } = await run(service, { model: 'simulated/first' });
    expect(ended).toMatchObject({ status: 'completed', step_count: 1 });
  });

  it('does not wait for a provider that asked another session to', async () => {
    await using service = await start({ second: [{ text: 'Here.' }] });
    const other = await service.createSession(AGENT);
    const { db, models } = service.deps;
    await pauseModel(db, models('simulated/first'), { tenantId: 'default', sessionId: other }, 120_000);
    await sql`update provider_pauses set agreed_until_at = until_at`.execute(db);
    const { ended, switches } = await run(service);
    expect(ended).toMatchObject({ status: 'completed' });
    expect(switches).toMatchObject([{ reason: 'rate_limited' }]);
    expect(asked(service)).toEqual(['second']);
  });

  it('skips one whose price a limit needs, and one whose provider is not configured', async () => {
    await using service = await start({ first: () => ({ fault: DOWN }), third: [{ text: 'Here.' }] });
    const { switches } = await run(service, { ...AGENT, fallbacks: ['nowhere/second', 'simulated/third'] });
    expect(switches).toMatchObject([{ to: 'simulated/third' }]);
  });

  it('compacts first where the next window is smaller', async () => {
    const context = contextPolicySchema.parse({});
    await using service = await start({ first: [{ text: 'Read.' }], second: () => ({ text: 'Here.' }) });
    service.simulator.setWindow('second', 16_000);
    await service.deps.db
      .insertInto('model_limits')
      .values({
        provider: 'simulated-chat',
        endpoint: service.deps.models('simulated-chat/second').endpoint,
        model: 'second',
        context_tokens: 16_000,
      })
      .execute();
    const { sessionId } = await run(service, { ...AGENT, context }, prose(1, 12_000));
    service.simulator.fault('first', [DOWN, DOWN]);
    const ended = await service.ended((await service.send(sessionId, 'And now?')).runId);
    expect(ended).toMatchObject({ status: 'completed' });
    const events = await readEvents(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });
    const types = events.map(({ type }) => type);
    expect(types.indexOf('compaction:complete')).toBeGreaterThan(types.indexOf('llm:switched'));
    expect(service.simulator.requests.filter(({ refusal }) => refusal === 'window')).toEqual([]);
  });
});
