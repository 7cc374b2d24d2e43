import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startSimulator } from '../../simulator/server.ts';
import { createClient } from '../../src/client/client.ts';
import { createBaton, defineAgent } from '../../src/library/baton.ts';
import { createTestKey } from '../support/keys.ts';
import { createTestDatabase } from '../support/postgres.ts';

/** A service with these settings, three agents and a worker, and keys of two tenants. */
export async function startMcpService(settings: Readonly<{ mcpAnswerMs?: number }> = {}) {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createTestDatabase());
  const simulator = stack.use(await startSimulator());
  const [ann, ben] = [
    await createTestKey(database.db, 'ann', ['read', 'write']),
    await createTestKey(database.db, 'ben', ['read', 'write']),
  ];
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stack.defer(() => new Promise((resolve) => server.close(() => resolve())));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const baton = stack.use(
    await createBaton({
      databaseUrl: database.connectionString,
      simulatorUrl: simulator.url,
      ...settings,
      environment: { KEY: keyOf(ann) },
      agents: [
        defineAgent({ name: 'researcher', model: 'simulated/researcher', description: 'Finds things out.' }),
        defineAgent({
          name: 'careful',
          model: 'simulated/careful',
          tools: [{ client: { name: 'ask', description: 'Asks.' } }],
        }),
        defineAgent({
          name: 'chief',
          model: 'simulated/chief',
          tools: [{ mcp: 'agents' }],
          mcpServers: { agents: { url: `${url}/mcp`, headersFromEnv: { 'x-api-key': 'KEY' } } },
        }),
      ],
    }),
  );
  server.on('request', baton.handler);
  stack.defer(() => server.closeAllConnections());
  await baton.startWorker();
  const api = createClient({ baseUrl: url, apiKey: keyOf(ann) });
  const owned = stack.move();
  return { url, db: database.db, ann, ben, simulator, api, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export const keyOf = ({ headers }: Readonly<{ headers: Record<string, string> }>): string =>
  (headers['authorization'] ?? '').replace('Bearer ', '');
