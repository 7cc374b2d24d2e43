import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import { startSilentServer } from '../support/silent-server.ts';
import { agentOf, childrenOf, startTeam, tasks } from './children-scenario.ts';

/** A session of another tenant, and a message to it. */
async function sendAs(
  tenantId: string,
  { deps, createSession, sendParts }: TestService,
  agent: string,
): Promise<string> {
  const sessionId = await createSession({ tools: [{ agent }] });
  await sql`update sessions set tenant_id = ${tenantId} where id = ${sessionId}`.execute(deps.db);
  await sendParts(sessionId, [{ type: 'text', text: 'Go' }], tenantId);
  return sessionId;
}

const SESSIONS = 12;
const CHILDREN = 4;

const stuckAt = (url: string) =>
  agentOf('stuck', { tools: [{ mcp: 'docs' }], mcpServers: { docs: { url, timeoutMs: 120_000, trust: false } } });

it('a child of one tenant begins while the MCP server of many of another hangs', async () => {
  await using silent = await startSilentServer();
  const agents = [stuckAt(silent.url), agentOf('researcher')];
  await using service = await startTeam('postgres', agents, { pinWithinMs: 3_600_000 });
  const { simulator, deps } = service;
  const calls = (agent: string, count: number) => (request: { messages: readonly unknown[] }) =>
    request.messages.length > 1 ? { text: 'Done.' } : tasks(agent, count);
  simulator.script('test', ({ messages, tools }) =>
    tools.some(({ name }) => name === 'stuck')
      ? calls('stuck', CHILDREN)({ messages })
      : calls('researcher', 1)({ messages }),
  );
  simulator.script('researcher', () => ({ text: 'Found.' }));
  const evil: string[] = [];
  for (let left = SESSIONS; left > 0; left--) evil.push(await sendAs('evil', service, 'stuck'));
  await service.startWorker();
  await eventually(async () => silent.requests() > 0, 'the server is asked');
  const session = await sendAs('acme', service, 'researcher');
  const stateOf = async (of: string) => (await childrenOf(deps.db, of)).map(({ state }) => state);
  await eventually(async () => (await stateOf(session)).includes('delivered'), 'the other tenant has its answer');
  expect((await Promise.all(evil.map(stateOf))).flat()).not.toContain('delivered');
});

it('a child whose MCP server hangs is refused, and the result says which server it was', async () => {
  await using silent = await startSilentServer();
  await using service = await startTeam('postgres', [stuckAt(silent.url)], { pinWithinMs: 50 });
  service.simulator.script('test', ({ messages }) => (messages.length > 1 ? { text: 'Done.' } : tasks('stuck', 1)));
  const sessionId = await service.createSession({ tools: [{ agent: 'stuck' }] });
  const { runId } = await service.send(sessionId, 'Go');
  await service.startWorker();
  await service.ended(runId);
  const [child] = await childrenOf(service.deps.db, sessionId);
  expect(child?.result).toMatchObject({
    status: 'refused',
    error: { code: 'tools_unavailable', message: 'The MCP server docs did not list its tools within 50 ms.' },
  });
});

/** More than a tenant has in hand at a time. */
const REFUSED = 150;

it('a child of one tenant is told of while hundreds of calls of another are refused', async () => {
  await using service = await startTeam('postgres', [agentOf('crowd'), agentOf('researcher')]);
  const { simulator, deps } = service;
  simulator.script('test', ({ messages, tools }) => {
    if (messages.length > 1) return { text: 'Done.' };
    return tools.some(({ name }) => name === 'crowd') ? tasks('crowd', REFUSED) : tasks('researcher', 1);
  });
  simulator.script('researcher', () => ({ text: 'Found.' }));
  const evil = await service.createSession({ tools: [{ agent: 'crowd' }], limits: { maxSteps: 2 } });
  await sql`update sessions set tenant_id = 'evil' where id = ${evil}`.execute(deps.db);
  await service.sendParts(evil, [{ type: 'text', text: 'Go' }], 'evil');
  await service.startWorker();
  const stateOf = async (of: string) => (await childrenOf(deps.db, of)).map(({ state }) => state);
  await eventually(async () => (await stateOf(evil)).includes('delivered'), 'some calls are refused');
  const session = await sendAs('acme', service, 'researcher');
  await eventually(async () => (await stateOf(session)).includes('delivered'), 'the other tenant has its answer');
  expect(await stateOf(evil)).toContain('ended');
  await eventually(
    async () => (await stateOf(evil)).filter((state) => state === 'delivered').length === REFUSED,
    'all are refused',
  );
  const results = (await childrenOf(deps.db, evil)).map(({ result }) => result?.['status']);
  expect(new Set(results)).toEqual(new Set(['refused']));
});
