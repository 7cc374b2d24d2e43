import { describe, expect, it } from 'vitest';
import { hashOfTools, type PinnedTool } from '../../src/agents/pinned-tools.ts';
import { BatonError } from '../../src/domain/errors.ts';
import { parseId } from '../../src/domain/ids.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const toolOf = (name: string, description: string): PinnedTool => ({
  name,
  description,
  inputSchema: { type: 'object' },
});
const pinsOf = (...tools: PinnedTool[]) => ({ docs: { hash: hashOfTools(tools), tools } });
const OLD = pinsOf(toolOf('search', 'Searches.'), toolOf('fetch', 'Fetches.'));
const NEW = pinsOf(toolOf('search', 'Searches the web.'), toolOf('list', 'Lists.'));
const CHANGES = [{ server: 'docs', added: ['list'], changed: ['search'], removed: ['fetch'] }];

/** An API whose MCP servers offer what `server.pins` says, where they are not down. */
async function startScene() {
  const server = { pins: OLD, isDown: false, whileAsked: async () => undefined as unknown };
  const api = await startTestApi({
    async pinTools(agent) {
      await server.whileAsked();
      if (server.isDown) throw new BatonError('tools_unavailable', 'The MCP server docs cannot be reached.');
      return { ...agent, pinnedTools: server.pins };
    },
  });
  return { server, api, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

const repin = (api: TestApi, session: string, headers?: Record<string, string>) =>
  api.call('POST', `/v1/sessions/${session}/repin`, undefined, headers);

async function stored({ db }: TestApi, session: string) {
  const id = parseId('session', session) ?? '';
  const row = await db
    .selectFrom('sessions')
    .select(['agent_snapshot', 'agent_base', 'agent_version', 'context_state'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const events = (await readEvents(db, 'default', id, { afterSeq: 0, limit: 100 })).filter(
    ({ type }) => type === 'tools:pinned',
  );
  return { ...row, pins: row.agent_snapshot['pinnedTools'], told: events.map(({ data }) => data) };
}

describe('taking the definitions of now', () => {
  it('changes the session’s copy of its agent, and says what is different', async () => {
    await using scene = await startScene();
    const { api, server } = scene;
    const session = await api.createSession();
    const { agent_version: version } = await stored(api, session);
    expect(await repin(api, session)).toMatchObject({ status: 200, body: { sessionId: session, changes: [] } });
    server.pins = NEW;
    expect((await repin(api, session)).body).toEqual({ sessionId: session, changes: CHANGES });
    expect(await stored(api, session)).toMatchObject({ pins: NEW, agent_version: version, told: CHANGES });
    expect(api.announced.at(-1)?.sessionId).toBe(parseId('session', session));
    expect((await repin(api, session)).body).toEqual({ sessionId: session, changes: [] });
    expect((await stored(api, session)).told).toHaveLength(1);
    const { body } = await api.call('GET', '/v1/audit');
    expect(body['entries']).toContainEqual(expect.objectContaining({ action: 'session:repin' }));
  });

  it('keeps what requests have added to the agent, and changes what they start from as well', async () => {
    await using scene = await startScene();
    const { api, server } = scene;
    const session = await api.createSession();
    const { agent_snapshot: snapshot } = await stored(api, session);
    const added = { ...snapshot, instructions: 'Of the client.' };
    const set = { agent_snapshot: JSON.stringify(added), agent_base: JSON.stringify(snapshot) };
    await api.db.updateTable('sessions').set(set).execute();
    server.pins = NEW;
    await repin(api, session);
    expect(await stored(api, session)).toMatchObject({
      agent_snapshot: { ...added, pinnedTools: NEW },
      agent_base: { ...snapshot, pinnedTools: NEW },
    });
  });

  it('with the same key gives the same answer, also while a server is down', async () => {
    await using scene = await startScene();
    const { api, server } = scene;
    const session = await api.createSession();
    server.pins = NEW;
    const key = { 'idempotency-key': 'once' };
    expect((await repin(api, session, key)).body['changes']).toEqual(CHANGES);
    server.isDown = true;
    expect(await repin(api, session, key)).toMatchObject({ status: 200, body: { changes: CHANGES } });
    expect(await repin(api, session)).toMatchObject({ status: 503, body: { code: 'tools_unavailable' } });
    expect((await stored(api, session)).told).toHaveLength(1);
  });

  it('is refused for a session that has got another agent meanwhile or is another tenant’s', async () => {
    await using scene = await startScene();
    const { api, server } = scene;
    const session = await api.createSession();
    server.pins = NEW;
    server.whileAsked = () => api.db.updateTable('sessions').set({ agent_version: 'another' }).execute();
    expect(await repin(api, session)).toMatchObject({ status: 409, body: { code: 'conflict' } });
    server.whileAsked = async () => undefined;
    expect(await stored(api, session)).toMatchObject({ pins: OLD, told: [] });
    const other = await createTestKey(api.db, 'other');
    expect(await repin(api, session, other.headers)).toMatchObject({ status: 404 });
  });
});
