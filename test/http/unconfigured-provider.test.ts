import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { createModels } from '../../src/model/providers.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const AGENT = agentSchema.parse({ name: 'stray', model: 'nowhere/model' });
const DETAIL =
  'no provider is configured for nowhere/model; configured: simulated, simulated-background, simulated-chat, simulated-anthropic';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ agents: createCatalogue([AGENT]) });
});
afterAll(() => api[Symbol.asyncDispose]());

const sessionsStored = async () => (await api.db.selectFrom('sessions').select('id').execute()).length;

describe('an agent whose model has no provider', () => {
  it.each([
    ['a session', '/v1/sessions', { agent: 'stray' }],
    [
      'a chat',
      '/api/chat',
      {
        id: 'c1',
        messages: [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
        trigger: 'submit-message',
      },
    ],
    ['a completion', '/v1/chat/completions', { model: 'stray', messages: [{ role: 'user', content: 'Hello' }] }],
  ])('is refused %s at once, and nothing is stored', async (_what, path, body) => {
    const answer = await api.call('POST', path, body);
    expect(answer).toMatchObject({ status: 503, body: { code: 'model_unavailable', detail: DETAIL } });
    expect(await sessionsStored()).toBe(0);
    expect(api.added).toEqual([]);
  });

  it.each([
    ['a model', 'nowhere/model'],
    ['an agent', 'agent:stray'],
  ])('is refused where it is the one that summarizes, as %s', async (_what, model) => {
    const agent = agentSchema.parse({ name: 'tidy', model: 'simulated/tidy', context: { compaction: { model } } });
    await using own = await startTestApi({ agents: createCatalogue([AGENT, agent]) });
    const answer = await own.call('POST', '/v1/sessions', { agent: 'tidy' });
    expect(answer).toMatchObject({ status: 503, body: { code: 'model_unavailable', detail: DETAIL } });
  });

  it('is listed with this problem', async () => {
    const { body } = await api.call('GET', '/v1/agents');
    expect(body['agents']).toMatchObject([{ name: 'stray', problems: [DETAIL] }]);
  });

  it('is told again what was made of a key before its provider went', async () => {
    await using before = await startTestApi({
      agents: createCatalogue([AGENT]),
      models: (name) => createModels({ simulatorUrl: 'http://127.0.0.1:9' })(name.replace('nowhere', 'simulated')),
    });
    const key = { 'idempotency-key': 'once' };
    const made = await before.call('POST', '/v1/sessions', { agent: 'stray' }, key);
    expect(made).toMatchObject({ status: 201 });
    await using after = await startTestApi({ agents: createCatalogue([AGENT]), db: before.db });
    const again = await after.call('POST', '/v1/sessions', { agent: 'stray' }, key);
    expect(again).toMatchObject({ status: 201, body: { id: made.body['id'] } });
    expect(await after.call('POST', '/v1/sessions', { agent: 'stray' })).toMatchObject({ status: 503 });
  });
});
