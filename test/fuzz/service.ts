import { OpenAPIHono } from '@hono/zod-openapi';
import { z } from 'zod';
import { type ProfileName, simulatedProvider } from '../../simulator/profiles.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { createApp } from '../../src/app/app.ts';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import type { BatonApp, HttpEnv } from '../../src/http/http-env.ts';
import { startHttpServer } from '../../src/http/server.ts';
import { defineTool } from '../../src/tools/define-tool.ts';
import type { Tenant } from '../http/two-tenants.ts';
import { anyBackend } from '../support/backends.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { asWriter, NOBODY, noteWrites, openNotedDatabase } from './written.ts';

/** This header names a request, and the rows that the request stores are noted under that name. */
export const WRITER_HEADER = 'x-fuzz-request';

export type FuzzService = AsyncDisposable &
  Readonly<{
    service: TestService;
    /** The ways of the endpoint of the agent `coder`. */
    profile: ProfileName | undefined;
    url: string;
    takeWrites: Awaited<ReturnType<typeof noteWrites>>;
    /** Ends the API alone. From then on no row is stored for a request. */
    stopApi: () => Promise<void>;
  }>;

const place = z.object({ place: z.string() });
/** A tool that runs, one that a person has to approve, and one that the client runs. */
const TOOLS = [
  defineTool({ name: 'look', description: 'Looks.', inputSchema: place, execute: (input) => `seen: ${input.place}` }),
  defineTool({ name: 'enter', description: 'Enters.', inputSchema: place, execute: (input) => `in ${input.place}` }),
  { name: 'ask', description: 'Asks the user.', inputSchema: place },
];
const agentsWith = (profile: ProfileName | undefined) => [
  agentSchema.parse({
    name: 'coder',
    model: `${profile === undefined ? 'simulated' : simulatedProvider(profile)}/coder`,
    models: ['simulated*'],
    tools: ['test'],
    approvals: ['enter'],
  }),
  agentSchema.parse({ name: 'clerk', model: 'simulated/clerk', limits: { maxSteps: 7 } }),
];

/** The service with a worker and a simulated model. Each row that its API stores is noted with its request. */
export async function startFuzzService(profile: ProfileName | undefined): Promise<FuzzService> {
  await using stack = new AsyncDisposableStack();
  const backend = anyBackend();
  const service = stack.use(await startTestService({ backend, tools: TOOLS }));
  const { deps } = service;
  const takeWrites = await noteWrites(deps.db);
  await service.startWorker();
  const api = stack.use(new AsyncDisposableStack());
  const db = openNotedDatabase(deps.databaseUrl);
  api.defer(() => db.destroy());
  const agents = createCatalogue(agentsWith(profile));
  const app = createApp({ ...deps, db, agents, readiness: deps.health.readiness });
  const { url } = api.use(await startHttpServer(knownByHeader(app), { host: '127.0.0.1', port: 0 }));
  const owned = stack.move();
  return {
    service,
    profile,
    url,
    takeWrites,
    stopApi: () => api.disposeAsync(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function knownByHeader(app: BatonApp): BatonApp {
  const outer: BatonApp = new OpenAPIHono<HttpEnv>();
  outer.all('*', (c) => asWriter(c.req.header(WRITER_HEADER) ?? NOBODY, () => app.fetch(c.req.raw, c.env)));
  return outer;
}

/** A tenant. `known`: all ids that the service was ever right to tell it. */
export type Player = Tenant & Readonly<{ known: Set<string> }>;

/** Makes a tenant with some idle sessions and a file. Its requests make the rest. */
export async function createPlayer({ service, url }: FuzzService, name: string): Promise<Player> {
  const key = await createTestKey(service.deps.db, name, SCOPES);
  const word = `word-${name}-${service.deps.newId()}`;
  const post = async (path: string, type: string, body: string): Promise<string> => {
    const headers = { ...key.headers, 'content-type': type };
    const response = await fetch(url + path, { method: 'POST', headers, body });
    return z.object({ id: z.string() }).parse(await response.json()).id;
  };
  const sessions = Array.from({ length: 4 }, (_, at) =>
    JSON.stringify({ agent: at === 3 ? 'clerk' : 'coder', title: word, metadata: { at: String(at) } }),
  );
  const ses = await Promise.all(sessions.map((body) => post('/v1/sessions', 'application/json', body)));
  const blob = [await post('/v1/blobs', 'text/plain', `a file of ${word}`)];
  const ids = { ses, blob, run: [], msg: [], call: [], key: [formatId('key', key.id)] };
  return { name, word, key, ids, known: new Set(Object.values(ids).flat()) };
}
