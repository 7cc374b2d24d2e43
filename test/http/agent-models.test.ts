import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { createModels } from '../../src/model/providers.ts';
import { NO_QUOTA } from '../../src/store/session/quota.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const models = createModels({
  simulatorUrl: 'http://127.0.0.1:9',
  openaiApiKey: 'sk',
  providers: [{ name: 'local', kind: 'openai-compatible', baseUrl: 'http://127.0.0.1:9/v1', headers: {} }],
});
const agents = createCatalogue([
  agentSchema.parse({ name: 'plain', model: 'openai/gpt-5.4-mini', context: { compaction: { model: 'openai/o3' } } }),
  agentSchema.parse({ name: 'open', model: 'openai/gpt-5.4-mini', models: ['openai/gpt-5.4', 'local/*'] }),
  agentSchema.parse({ name: 'any', model: 'openai/gpt-5.4-mini', models: ['*'] }),
  agentSchema.parse({ name: 'limited', model: 'openai-chat/gpt-5.5-pro', models: ['*'], limits: { maxCostUsd: 1 } }),
  agentSchema.parse({ name: 'free', model: 'local/llama', context: { compaction: { model: 'openai/o3' } } }),
]);

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ agents, models });
});
afterAll(() => api[Symbol.asyncDispose]());

const create = (agent: string, overrides?: object, at = api) =>
  at.call('POST', '/v1/sessions', { agent, ...(overrides && { overrides }) });
const switchTo = async (agent: string, body: object, at = api) => {
  const session = await create(agent, undefined, at);
  return at.call('POST', `/v1/sessions/${session.body['id']}/agent`, body);
};

const NOT_ALLOWED = { status: 400, body: { code: 'model_not_allowed' } };

describe('the models that the sessions of an agent may take', () => {
  it.each([
    ['plain', 'openai/gpt-5.4-mini'],
    ['plain', 'openai/o3'],
    ['open', 'openai/gpt-5.4'],
    ['open', 'local/llama3.2'],
    ['any', 'simulated-chat/whatever'],
  ])('of %s are its own, the one that summarizes and those that it names: %s', async (agent, model) => {
    expect(await create(agent, { model })).toMatchObject({ status: 201, body: { overrides: { model } } });
    expect(await switchTo(agent, { model })).toMatchObject({ status: 200 });
    expect(await switchTo('plain', { agent, model })).toMatchObject({ status: 200 });
  });

  it.each([
    ['plain', 'openai/gpt-5.4'],
    ['plain', 'local/llama3.2'],
    ['open', 'openai/gpt-5.4-pro'],
    ['open', 'openai/o3'],
  ])('of %s are no others: %s', async (agent, model) => {
    const refused = await create(agent, { model });
    expect(refused).toMatchObject(NOT_ALLOWED);
    expect(String(refused.body['detail'])).toContain('openai/gpt-5.4-mini');
    expect(await switchTo(agent, { model })).toMatchObject(NOT_ALLOWED);
    expect(await switchTo('any', { agent, model })).toMatchObject(NOT_ALLOWED);
    expect(await switchTo('any', { agent, overrides: { model } })).toMatchObject(NOT_ALLOWED);
  });

  it('have the way back to the agent’s own model open', async () => {
    const { body } = await create('open', { model: 'local/llama3.2' });
    const back = await api.call('POST', `/v1/sessions/${body['id']}/agent`, { model: 'openai/gpt-5.4-mini' });
    expect(back).toMatchObject({ status: 200 });
  });

  it('are listed with the agent', async () => {
    const { body } = await api.call('GET', '/v1/agents');
    const listed = body['agents'] as { name: string; models: string[] }[];
    expect(listed.find(({ name }) => name === 'open')?.models).toEqual(['openai/gpt-5.4', 'local/*']);
  });
});

const NO_PRICE = { status: 400, body: { code: 'price_unknown' } };

describe('a model of which nobody knows the price', () => {
  it('is refused where the agent, or the session, limits the cost', async () => {
    const refused = await create('limited', { model: 'local/llama' });
    expect(refused).toMatchObject(NO_PRICE);
    expect(String(refused.body['detail'])).toContain('local/llama');
    expect(await create('any', { model: 'local/llama', limits: { maxCostUsd: 0.01 } })).toMatchObject(NO_PRICE);
    expect(await create('free', { limits: { maxCostUsd: 5 } })).toMatchObject(NO_PRICE);
    expect(await switchTo('limited', { model: 'openai/gpt-99' })).toMatchObject(NO_PRICE);
    expect(await switchTo('any', { agent: 'limited', model: 'local/x' })).toMatchObject(NO_PRICE);
  });

  it('is taken where nothing does, and any model whose price is known', async () => {
    expect(await create('any', { model: 'local/llama' })).toMatchObject({ status: 201 });
    expect(await create('free')).toMatchObject({ status: 201 });
    expect(await create('limited')).toMatchObject({ status: 201 });
    expect(await create('limited', { model: 'simulated/x' })).toMatchObject({ status: 201 });
  });

  it('is refused everywhere where tenants have a quota of cost', async () => {
    await using own = await startTestApi({ agents, models, quota: { ...NO_QUOTA, costUsdPerDay: 0.5 } });
    expect(await create('any', { model: 'local/llama' }, own)).toMatchObject(NO_PRICE);
    expect(await create('free', undefined, own)).toMatchObject(NO_PRICE);
    expect(await switchTo('any', { model: 'local/llama' }, own)).toMatchObject(NO_PRICE);
    const messages = [{ role: 'user', content: 'Hello' }];
    expect(await own.call('POST', '/v1/chat/completions', { model: 'free', messages })).toMatchObject({ status: 400 });
    expect(await create('any', undefined, own)).toMatchObject({ status: 201 });
  });
});
