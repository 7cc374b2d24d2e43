import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { z } from 'zod';
import { MAX_WEBHOOKS_PER_TENANT } from '../../../src/domain/webhooks/webhook.ts';
import { rawId } from '../../faults/check/snapshot.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';
import { withOrder } from '../world/model.ts';

/** The goal: what another tenant waits for is at most this much later than alone. */
const LATER_AT_MOST_MS = 1_000;
const TRIES = 12;
const ARRIVES_WITHIN_MS = 60_000;

const DELIVERIES_PER_WEBHOOK = 8;
const SCHEDULES = 90;
const PARENTS = 10;
const CHILDREN = 4;

const SECRET = 's'.repeat(32);
const createdSchema = z.object({ id: z.string() });
const firesSchema = z.object({ fires: z.array(z.object({ result: z.string() })) });

type Server = AsyncDisposable & Readonly<{ url: string; requests: () => number }>;

/** @param answers false: it takes requests and never answers */
async function startServer(answers: boolean): Promise<Server> {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    request.resume();
    if (answers) response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A server that never answers. Nobody disposes what a row sets up: it must not keep the suite running. */
async function startSilent(): Promise<string> {
  const server = createServer(() => undefined).unref();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function create(attacker: Attacker, path: string, body: object, headers = {}): Promise<string> {
  const answer = await attacker.ask(path, { body, headers });
  if (answer.status !== 201) throw new Error(`${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
  return createdSchema.parse(JSON.parse(answer.text)).id;
}

async function until(holds: () => Promise<boolean> | boolean, what: string): Promise<void> {
  for (const sinceMs = performance.now(); performance.now() - sinceMs < ARRIVES_WITHIN_MS; await delay(10)) {
    if (await holds()) return;
  }
  throw new Error(`never happened: ${what}`);
}

function untilCompleted(attacker: Attacker, runId: string, headers: object): Promise<void> {
  return until(async () => {
    const answer = await attacker.ask(`/v1/runs/${runId}/wait?timeoutMs=5000`, { headers: { ...headers } });
    return answer.status === 200 && answer.text.includes('"completed"');
  }, `run ${runId} is completed`);
}

/** One piece of work of another tenant, from its begin to its end. */
type Probe = Readonly<Record<string, () => Promise<void>>>;

async function median(probe: () => Promise<void>): Promise<number> {
  const tookMs: number[] = [];
  for (let tries = 0; tries < TRIES; tries++) {
    const startedAtMs = performance.now();
    await probe();
    tookMs.push(performance.now() - startedAtMs);
  }
  return Math.round(tookMs.toSorted((a, b) => a - b)[Math.floor(TRIES / 2)] ?? 0);
}

/** Measures the other tenant's work alone, then during the attack. */
async function compare(attacker: Attacker, probes: Probe, attack: () => Promise<void>): Promise<void> {
  const alone = new Map<string, number>();
  for (const [what, probe] of Object.entries(probes)) alone.set(what, await median(probe));
  await attack();
  for (const [what, probe] of Object.entries(probes)) {
    const [before, then] = [alone.get(what) ?? 0, await median(probe)];
    attacker.count(`ms for a ${what} alone`, before);
    attacker.count(`ms for a ${what} in the attack`, then);
    if (then > before + LATER_AT_MOST_MS) {
      attacker.breach(`a ${what} of another tenant took ${then} ms in the attack, and ${before} ms alone`);
    }
  }
}

async function hangReceivers(attacker: Attacker): Promise<void> {
  const headers = attacker.target.accomplice;
  await using silent = await startServer(false);
  await using well = await startServer(true);
  const own = await create(attacker, '/v1/webhooks', { url: well.url, secret: SECRET }, headers);
  const delivery = async (): Promise<void> => {
    const before = well.requests();
    await attacker.ask(`/v1/webhooks/${own}/test`, { method: 'POST', headers });
    await until(() => well.requests() > before, 'the other tenant is told');
  };
  await compare(attacker, { delivery }, async () => {
    await attacker.pieces(4, MAX_WEBHOOKS_PER_TENANT, async () => {
      const id = await create(attacker, '/v1/webhooks', { url: silent.url, secret: SECRET });
      await attacker.pieces(1, DELIVERIES_PER_WEBHOOK, async () => {
        const { status } = await attacker.ask(`/v1/webhooks/${id}/test`, { method: 'POST' });
        attacker.count(`deliveries to receivers that hang answered ${status}`);
      });
    });
    await until(() => silent.requests() > 0, 'the receivers hang');
  });
  attacker.count('requests that hang', silent.requests());
}

/** Makes a schedule of any tenant due now. */
const makeDue = (database: pg.Client, ids: readonly string[]) =>
  database.query(
    `update schedules set next_fire_at = clock_timestamp(), due_at = clock_timestamp() where id = any($1::uuid[])`,
    [ids.map(rawId)],
  );

const YEARLY = { cron: '0 0 1 1 *', content: 'Go' };

async function hangMcpServer(attacker: Attacker): Promise<void> {
  const headers = attacker.target.accomplice;
  const database = new pg.Client({ connectionString: attacker.target.databaseUrl });
  await database.connect();
  try {
    const fire = async (): Promise<void> => {
      const id = await create(attacker, '/v1/schedules', { agent: 'attacker', ...YEARLY }, headers);
      await makeDue(database, [id]);
      await until(async () => {
        const { text } = await attacker.ask(`/v1/schedules/${id}/fires`, { headers });
        return firesSchema.parse(JSON.parse(text)).fires.length > 0;
      }, 'the schedule of the other tenant fires');
    };
    const child = async (): Promise<void> => {
      const session = await create(attacker, '/v1/sessions', { agent: 'lead' }, headers);
      const content = withOrder('Go', { rounds: [[{ name: 'attacker', input: { task: 'Look' } }]] });
      const { text } = await attacker.ask(`/v1/sessions/${session}/messages`, { body: { content }, headers });
      await untilCompleted(attacker, z.object({ runId: z.string() }).parse(JSON.parse(text)).runId, headers);
    };
    await compare(attacker, { fire, child }, async () => {
      const ids: string[] = [];
      await attacker.pieces(4, SCHEDULES, async () => {
        ids.push(await create(attacker, '/v1/schedules', { agent: 'stuck', ...YEARLY }));
      });
      await makeDue(database, ids);
      const calls = Array.from({ length: CHILDREN }, () => ({ name: 'stuck', input: { task: 'Look' } }));
      await attacker.pieces(4, PARENTS, async () => {
        const session = await attacker.createSession('crowder');
        await attacker.send(session, withOrder('Go', { rounds: [calls] }));
      });
      attacker.count('schedules and children whose MCP server hangs', SCHEDULES + PARENTS * CHILDREN);
    });
  } finally {
    await database.end();
  }
}

const STEP_SLOTS = 8;
const HELD_RUNS = 10 * STEP_SLOTS;
const GATE = 'crowd';
const LOOK_EVERY_MS = 100;

async function hangModels(attacker: Attacker): Promise<void> {
  const headers = attacker.target.accomplice;
  const run = async (): Promise<void> => {
    const session = await create(attacker, '/v1/sessions', { agent: 'attacker' }, headers);
    const { text } = await attacker.ask(`/v1/sessions/${session}/messages`, { body: { content: 'Go' }, headers });
    await untilCompleted(attacker, z.object({ runId: z.string() }).parse(JSON.parse(text)).runId, headers);
  };
  await compare(attacker, { run }, async () => {
    await holdRun(attacker, GATE);
    await attacker.pieces(4, HELD_RUNS, async () => {
      await attacker.send(await attacker.createSession(), withOrder('Go', { hold: GATE }));
    });
    attacker.count('runs whose model hangs', HELD_RUNS + 1);
  });
  while (!attacker.isOver()) await delay(LOOK_EVERY_MS);
  await release(attacker, GATE);
}

const COMPACTION_SLOTS = 4;
const HELD_COMPACTIONS = 10 * COMPACTION_SLOTS;
const LONG_MESSAGES = 4;
const LONG_CHARS = 9_000;

const eventsSchema = z.object({ events: z.array(z.object({ type: z.string() })) });

/** A session of this agent that holds more than a compaction keeps. */
async function fillSession(attacker: Attacker, agent: string, headers = {}): Promise<string> {
  const session = await create(attacker, '/v1/sessions', { agent }, headers);
  const content = 'lorem ipsum '.repeat(LONG_CHARS).slice(0, LONG_CHARS);
  for (let sent = 0; sent < LONG_MESSAGES; sent++) {
    const { text } = await attacker.ask(`/v1/sessions/${session}/messages`, { body: { content }, headers });
    await untilCompleted(attacker, z.object({ runId: z.string() }).parse(JSON.parse(text)).runId, headers);
  }
  return session;
}

async function hangSummarizers(attacker: Attacker): Promise<void> {
  const headers = attacker.target.accomplice;
  const compact = (session: string, of = {}) =>
    attacker.ask(`/v1/sessions/${session}/compact`, { method: 'POST', headers: of });
  const full = await Promise.all(Array.from({ length: 2 * TRIES }, () => fillSession(attacker, 'brief', headers)));
  const compaction = async (): Promise<void> => {
    const session = full.pop() ?? '';
    await compact(session, headers);
    await until(async () => {
      const { text } = await attacker.ask(`/v1/sessions/${session}/events?limit=100`, {
        headers: { ...headers, accept: 'application/json' },
      });
      return eventsSchema.parse(JSON.parse(text)).events.some(({ type }) => type === 'compaction:complete');
    }, 'the session of the other tenant is compacted');
  };
  await compare(attacker, { compaction }, async () => {
    await attacker.pieces(4, HELD_COMPACTIONS, async () => {
      const { status } = await compact(await fillSession(attacker, 'endless'));
      attacker.count(`compactions whose summarizer hangs answered ${status}`);
    });
  });
}

/** One tenant's receivers, MCP servers, models and summarizers hang; another one's deliveries, schedules, children and runs must not wait. */
export const NEIGHBOURS: readonly Row[] = [
  {
    name: 'hanging-receivers',
    about: '50 webhooks whose receivers never answer, with 400 deliveries',
    setUp: () => ({ settings: { BATON_WEBHOOKS_ALLOWED_HOSTS: '127.0.0.1' } }),
    attack: attackBy(hangReceivers),
  },
  {
    name: 'hanging-mcp',
    about: 'an MCP server that never answers, under 90 schedules and 40 children',
    async setUp() {
      const url = `${await startSilent()}/mcp`;
      const model = 'simulated/attacker';
      return {
        agents: {
          stuck: { model, tools: [{ mcp: 'silent' }], mcpServers: { silent: { url } } },
          crowder: { model, tools: [{ agent: 'stuck' }] },
          lead: { model, tools: [{ agent: 'attacker' }] },
        },
      };
    },
    attack: attackBy(hangMcpServer),
  },
  {
    name: 'hanging-models',
    about: `${HELD_RUNS} runs whose models hang, on a worker with ${STEP_SLOTS} slots for steps`,
    setUp: () => ({ settings: { BATON_STEP_CONCURRENCY: String(STEP_SLOTS) } }),
    // A run waits for a look at the work that is due, which a look at its latency alone would take for harm.
    spares: ['read', 'create'],
    attack: attackBy(hangModels),
  },
  {
    name: 'hanging-summarizers',
    about: `${HELD_COMPACTIONS} compactions whose summarizers hang, on a worker with ${COMPACTION_SLOTS} slots for them`,
    async setUp() {
      const context = (model: string) => ({ maxContextTokens: 16_000, compaction: { strategy: 'manual', model } });
      const model = 'simulated/attacker';
      return {
        settings: {
          BATON_COMPACTION_CONCURRENCY: String(COMPACTION_SLOTS),
          OPENAI_API_KEY: 'sk-none',
          OPENAI_BASE_URL: `${await startSilent()}/v1`,
        },
        agents: {
          brief: { model, context: context('__same__') },
          endless: { model, context: context('openai/gpt-5') },
        },
      };
    },
    // The sessions are filled by many runs first.
    spares: ['read', 'create'],
    attack: attackBy(hangSummarizers),
  },
];
