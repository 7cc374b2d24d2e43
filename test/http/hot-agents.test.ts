import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAgentFolder } from '../../src/agents/agent-folder.ts';
import type { Scope } from '../../src/domain/access.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createTestKey } from '../support/keys.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const stack = new AsyncDisposableStack();
const logged: LogEvent[] = [];
let folder: string;
let api: TestApi;

const write = (name: string, rest = '') =>
  writeFile(path.join(folder, `${name}.yaml`), `name: ${name}\nmodel: simulated/${name}\n${rest}`);

beforeAll(async () => {
  folder = stack.use(await temporaryFolder()).path;
  await write('clerk');
  let nowMs = 0;
  const agents = await openAgentFolder({
    folder,
    check: async () => undefined,
    log: (_level, event) => void logged.push(event),
    // Each request is a second after the one before it.
    nowMs: () => {
      nowMs += 1_000;
      return nowMs;
    },
  });
  api = stack.use(await startTestApi({ agents }));
});
afterAll(() => stack.disposeAsync());

/** The two lists of agents that the API gives: its own, and the one of OpenAI's models. */
async function listed() {
  const { agents } = (await api.call('GET', '/v1/agents')).body as { agents?: { name: string; description: string }[] };
  const { data } = (await api.call('GET', '/v1/models')).body as { data?: { id: string }[] };
  return {
    agents: (agents ?? []).map(({ name, description }) => [name, description]),
    models: data?.map(({ id }) => id),
  };
}

describe('agents of a service that runs', () => {
  it('are listed and have sessions as soon as their file is there, and stay when it breaks until it is mended', async () => {
    expect(await api.call('POST', '/v1/sessions', { agent: 'poet' })).toMatchObject({ status: 422 });
    await write('poet', 'description: Rhymes.\n');
    expect(await listed()).toEqual({
      agents: [
        ['clerk', null],
        ['poet', 'Rhymes.'],
      ],
      models: ['clerk', 'poet'],
    });
    await write(
      'poet',
      'description: Rhymes.\ncontext: { compaction: { strategy: pruning-agent, model: agent:clerk } }\n',
    );
    expect((await api.call('GET', '/v1/agents')).body['agents']).toMatchObject([
      { context: { strategy: 'auto', summarizer: '__same__', compactAtPercent: 80, compactByPercent: 98 } },
      { context: { strategy: 'pruning-agent', summarizer: 'agent:clerk', pruneAtPercent: 50 } },
    ]);
    const first = await api.call('POST', '/v1/sessions', { agent: 'poet' });
    expect(first).toMatchObject({ status: 201 });

    await write('poet', 'description: Sings.\nlimits: { maxSteps: none }\n');
    expect((await listed()).agents).toContainEqual(['poet', 'Rhymes.']);
    const meanwhile = await api.call('POST', '/v1/sessions', { agent: 'poet' });
    expect(meanwhile.body['agentVersion']).toBe(first.body['agentVersion']);
    expect(logged.at(-1)).toEqual({ event: 'agents_rejected', file: 'poet.yaml', keys: ['limits.maxSteps'] });
    const broken = (await api.call('GET', '/v1/agents')).body;
    const problem = expect.stringContaining('limits.maxSteps');
    expect(broken['rejected']).toEqual([{ file: 'poet.yaml', keys: ['limits.maxSteps'], problem }]);

    await write('poet', 'description: Sings.\n');
    expect((await listed()).agents).toContainEqual(['poet', 'Sings.']);
    expect((await api.call('GET', '/v1/agents')).body['rejected']).toEqual([]);
    expect(logged.filter(({ event }) => event === 'agents_rejected')).toHaveLength(1);
    const mended = await api.call('POST', '/v1/sessions', { agent: 'poet' });
    expect(mended).toMatchObject({ status: 201 });
    expect(mended.body['agentVersion']).not.toBe(first.body['agentVersion']);
    const kept = await api.call('GET', `/v1/sessions/${first.body['id']}`);
    expect(kept.body['agentVersion']).toBe(first.body['agentVersion']);
  });

  it('can be switched to, asked for by OpenAI’s clients and chatted with at once', async () => {
    await write('painter');
    const session = await api.createSession({ agent: 'clerk' });
    expect(await api.call('POST', `/v1/sessions/${session}/agent`, { agent: 'painter' })).toMatchObject({
      status: 200,
    });
    await write('sculptor');
    expect(await api.call('GET', '/v1/models/sculptor')).toMatchObject({ status: 200, body: { id: 'sculptor' } });
    await write('dancer');
    const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Hello' }] };
    const chat = await fetch(`${api.url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: 'chat-1', messages: [message], trigger: 'submit-message', agent: 'dancer' }),
    });
    expect(chat.status).toBe(200);
    await chat.body?.cancel();
  });

  // This test must be the last: once it has made a key, the service asks every request for one.
  it('show what a broken file holds to administrators alone', async () => {
    await write('poet', 'limits: { maxSteps: none }\n');
    const read = async (scope: Scope) => {
      const { headers } = await createTestKey(api.db, 'default', ['read', scope]);
      return (await api.call('GET', '/v1/agents', undefined, headers)).body['rejected'];
    };
    const file = { file: 'poet.yaml', keys: ['limits.maxSteps'] };
    expect(await read('write')).toEqual([{ ...file, problem: null }]);
    expect(await read('operator')).toEqual([{ ...file, problem: expect.stringContaining('limits.maxSteps') }]);
  });
});
