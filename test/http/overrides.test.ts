import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { parseId } from '../../src/domain/ids.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const AGENT = agentSchema.parse({
  name: 'coder',
  model: 'simulated/coder',
  models: ['*'],
  instructions: 'You write code.',
  tools: [
    'workspace',
    { http: { name: 'deploy', description: 'Deploys.', url: 'https://example.com', inputSchema: { type: 'object' } } },
  ],
  approvals: ['bash'],
  limits: { maxSteps: 9, maxTokens: 1_000, toolConcurrency: 2 },
  settings: { temperature: 0.2, topP: 0.9 },
});
const CLERK = agentSchema.parse({ name: 'clerk', model: 'simulated/clerk', models: ['*'] });

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ agents: createCatalogue([AGENT, CLERK]) });
});
afterAll(() => api[Symbol.asyncDispose]());

const create = (overrides?: unknown) => api.call('POST', '/v1/sessions', { agent: 'coder', overrides });

async function stored(session: unknown) {
  const id = parseId('session', String(session)) ?? '';
  const row = await api.db
    .selectFrom('sessions')
    .select(['agent_name', 'agent_version', 'agent_snapshot'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return { id, ...row, agent: agentSchema.parse(row.agent_snapshot) };
}

const OVERRIDES = {
  model: 'simulated-chat/other',
  instructions: 'Answer in Norwegian.',
  settings: { temperature: 0, seed: 7, reasoning: 'low' },
  limits: { maxSteps: 3, finalAnswer: true },
};

describe('what a session has different from its agent', () => {
  it('is merged into its copy of the agent, setting by setting and limit by limit, and into the hash', async () => {
    const { status, body } = await create(OVERRIDES);
    expect(status).toBe(201);
    const { agent, agent_version: version } = await stored(body['id']);
    expect(agent).toEqual({
      ...AGENT,
      model: 'simulated-chat/other',
      instructions: 'You write code.\n\nAnswer in Norwegian.',
      settings: { temperature: 0, topP: 0.9, seed: 7, reasoning: 'low' },
      limits: { maxSteps: 3, maxTokens: 1_000, toolConcurrency: 2, finalAnswer: true },
    });
    expect(body['agentVersion']).toBe(version);
    expect(body['overrides']).toEqual(OVERRIDES);
    expect((await api.call('GET', `/v1/sessions/${body['id']}`)).body['overrides']).toEqual(OVERRIDES);
    const plain = await create();
    expect(plain.body['agentVersion']).not.toBe(version);
    expect((await create(OVERRIDES)).body['agentVersion']).toBe(version);
    expect((await create({})).body['agentVersion']).toBe(plain.body['agentVersion']);
  });

  it('holds for its runs', async () => {
    const { body } = await create({ limits: { maxSteps: 3, deadlineMs: 60_000 } });
    const sent = await api.send(String(body['id']), 'Go');
    const run = await api.call('GET', `/v1/runs/${sent.body['runId']}`);
    expect(run.body).toMatchObject({ maxSteps: 3, maxTokens: 1_000, deadlineAt: expect.any(String) });
  });

  it.each<[string, unknown, string]>([
    ['tools', { tools: ['workspace'] }, 'overrides.tools'],
    ['servers of tools', { mcpServers: { x: { command: 'sh' } } }, 'overrides.mcpServers'],
    ['approvals', { approvals: [] }, 'overrides.approvals'],
    ['the context', { context: { maxContextTokens: 1 } }, 'overrides.context'],
    ['another name', { name: 'clerk' }, 'overrides.name'],
    ['how long a step may take', { limits: { stepTimeoutMs: 1 } }, 'overrides.limits.stepTimeoutMs'],
    ['how many calls run at a time', { limits: { toolConcurrency: 64 } }, 'overrides.limits.toolConcurrency'],
    ['a setting that there is not', { settings: { headers: {} } }, 'overrides.settings.headers'],
    ['a setting out of range', { settings: { temperature: 3 } }, 'overrides.settings.temperature'],
    ['a setting that the model has no word for', { settings: { seed: 1 } }, 'overrides.settings.seed'],
    ['no steps at all', { limits: { maxSteps: 0 } }, 'overrides.limits.maxSteps'],
    ['a model without a provider', { model: 'coder' }, 'overrides.model'],
    ['NUL', { settings: { stopSequences: ['\u0000'] } }, 'overrides.settings.stopSequences.0'],
    ['a text', 'simulated/other', 'overrides'],
  ])('is not %s: that is refused by its name, and no session is there', async (_name, overrides, path) => {
    const count = async () => (await api.db.selectFrom('sessions').select('id').execute()).length;
    const before = await count();
    const { status, body } = await create(overrides);
    expect([status, body['code']]).toEqual([400, 'invalid_request']);
    expect(body.errors?.map((error) => error.path)).toEqual([path]);
    expect(await count()).toBe(before);
  });

  it('is no model whose provider is not configured', async () => {
    expect(await create({ model: 'nowhere/model' })).toMatchObject({
      status: 503,
      body: { code: 'model_unavailable' },
    });
  });

  it('is not refused for what the agent itself says to another model: that is left out of the requests', async () => {
    const seeded = agentSchema.parse({
      name: 'seeded',
      model: 'simulated-chat/x',
      models: ['simulated/x'],
      settings: { seed: 1 },
    });
    await using own = await startTestApi({ agents: createCatalogue([seeded]) });
    const fields = { agent: 'seeded', overrides: { model: 'simulated/x' } };
    expect((await own.call('POST', '/v1/sessions', fields)).status).toBe(201);
  });
});

describe('overrides and a switch', () => {
  const switchTo = (session: unknown, body: object) => api.call('POST', `/v1/sessions/${session}/agent`, body);

  it('to another agent, or to the same one: they are dropped', async () => {
    const { body } = await create(OVERRIDES);
    await switchTo(body['id'], { agent: 'clerk' });
    expect((await stored(body['id'])).agent).toEqual(CLERK);
    const again = await create(OVERRIDES);
    const { body: switched } = await switchTo(again.body['id'], { agent: 'coder' });
    const { id, agent } = await stored(again.body['id']);
    expect(agent).toEqual(AGENT);
    expect(switched['agentVersion']).toBe((await create()).body['agentVersion']);
    expect(switched['overrides']).toEqual({});
    const events = (await readEvents(api.db, 'default', id, { afterSeq: 0, limit: 10 })).map(({ type, data }) => [
      type,
      data,
    ]);
    expect(events).toEqual([['llm:switched', { from: 'simulated-chat/other', to: 'simulated/coder' }]]);
  });

  it('to another model alone: they are kept', async () => {
    const { body } = await create(OVERRIDES);
    const { body: switched } = await switchTo(body['id'], { model: 'simulated/third' });
    expect(switched['overrides']).toEqual({ ...OVERRIDES, model: 'simulated/third' });
    const fork = await api.call('POST', `/v1/sessions/${body['id']}/fork`, {});
    expect(fork.body['overrides']).toEqual(switched['overrides']);
    const { instructions, limits, settings, model } = (await stored(body['id'])).agent;
    expect({ instructions, limits, settings, model }).toMatchObject({
      instructions: 'You write code.\n\nAnswer in Norwegian.',
      limits: { maxSteps: 3 },
      settings: { seed: 7 },
      model: 'simulated/third',
    });
  });

  it('to an agent with overrides of its own: it has those', async () => {
    const { body } = await create(OVERRIDES);
    const overrides = { limits: { maxSteps: 2 } };
    const { body: switched } = await switchTo(body['id'], { agent: 'clerk', model: 'simulated/x', overrides });
    expect(switched['overrides']).toEqual({ model: 'simulated/x', ...overrides });
    expect((await stored(body['id'])).agent).toEqual({ ...CLERK, model: 'simulated/x', limits: { maxSteps: 2 } });
  });

  it.each([
    [{ model: 'simulated/x', overrides: { limits: { maxSteps: 2 } } }, 'overrides'],
    [{ agent: 'clerk', model: 'simulated/x', overrides: { model: 'simulated/y' } }, 'overrides.model'],
    [{ agent: 'clerk', overrides: { settings: { topK: 3 } } }, 'overrides.settings.topK'],
  ])('that makes no sense is refused: %j', async (change, path) => {
    const { body } = await create(OVERRIDES);
    const refused = await switchTo(body['id'], change);
    expect([refused.status, refused.body.errors?.map((error) => error.path)]).toEqual([400, [path]]);
    expect((await stored(body['id'])).agent.model).toBe(OVERRIDES.model);
  });

  it('a fork has them as its parent has', async () => {
    const { body } = await create(OVERRIDES);
    const fork = await api.call('POST', `/v1/sessions/${body['id']}/fork`, {});
    expect((await stored(fork.body['id'])).agent).toEqual((await stored(body['id'])).agent);
  });
});
