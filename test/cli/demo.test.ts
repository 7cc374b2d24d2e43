import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, inject, it, vi } from 'vitest';
import { z } from 'zod';
import { agentScript } from '../../simulator/lead-script.ts';
import { startSimulator } from '../../simulator/server.ts';
import { workspaceScript } from '../../simulator/workspace-script.ts';
import { lockDataDir } from '../../src/embedded/owner-lock.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type DemoPlace, demoPlace, lastLineOf } from './support/demo-process.ts';

// A demo creates a database and starts two processes, in some tests twice.
vi.setConfig({ testTimeout: 240_000 });

const positive = z.number().int().positive();
const resultSchema = z.strictObject({
  status: z.literal('completed'),
  steps: positive,
  toolCalls: positive,
  injected: positive,
  events: positive,
  durationMs: positive,
  backend: z.enum(['redis', 'postgres']),
});

/** Texts on the terminal about the second message and the command, in order. */
const SHOWN = [
  'You, while the agent works: One more thing: can applyVoucher make a total negative?',
  'queued at position 1',
  'your message was taken up after',
  'You just added: “One more thing: can applyVoucher make a total negative?”',
  '→ grep pattern: applyVoucher',
  '? bash command: node --test',
  '! approved by the demo: a script chose the command',
  'not ok 1 - a small order pays for shipping',
  'You also wrote: “One more thing: can applyVoucher make a total negative?”',
  '✓ completed after',
];

const placesOf = (text: string, parts: readonly string[]): number[] => parts.map((part) => text.indexOf(part));
const isRising = (places: readonly number[]): boolean =>
  places.every((place, index) => place > (index === 0 ? -1 : (places[index - 1] ?? 0)));

/** A model in this process behind the real provider package. The test can see its requests and hold its answers. */
async function startModel() {
  const model = await startSimulator();
  model.script('*', workspaceScript);
  const environment = {
    OPENAI_API_KEY: 'key-of-a-test',
    OPENAI_BASE_URL: `${model.url}/v1`,
    BATON_MODEL: 'openai/gpt-5.4',
  };
  return { ...model, environment };
}

async function postgresPid({ dataDir }: DemoPlace): Promise<number | null> {
  const text = await readFile(join(dataDir, 'cluster/postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number.parseInt(text, 10);
  return pid > 0 ? pid : null;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('the demo with nothing but npm', () => {
  it('runs a task with a message taken up on the way, ends with one JSON line and leaves nothing behind', async () => {
    await using place = await demoPlace();
    const demo = place.start(['--json']);
    const pid = await eventually(() => postgresPid(place), 'the embedded Postgres runs');
    const end = await demo.ended;
    expect(end).toMatchObject({ exitCode: 0 });
    expect(resultSchema.parse(lastLineOf(end))).toMatchObject({ injected: 1, backend: 'postgres' });
    expect(isAlive(pid)).toBe(false);
    expect(place.processes()).toEqual([]);
    expect(await readdir(place.temporaryDir)).toEqual([]);
    expect(placesOf(end.stderr, SHOWN)).toSatisfy(isRising);
  });

  it('stops on SIGINT in mid-stream with exit code 130: the run is cancelled, nothing stays behind', async () => {
    await using place = await demoPlace();
    await using model = await startModel();
    model.script('*', [
      { toolCalls: [{ name: 'list_files', input: {} }] },
      { text: 'This will never be finished.', chunkChars: 4, gates: { afterChunks: { count: 3, gate: 'middle' } } },
    ]);
    const demo = place.start(['--json'], model.environment);
    await Promise.all([model.gate('middle').reached, demo.shows('Step 2')]);
    const pid = await postgresPid(place);
    demo.kill('SIGINT');
    const end = await demo.ended;
    expect(end).toMatchObject({ exitCode: 130 });
    expect(lastLineOf(end)).toMatchObject({ status: 'cancelled', steps: 1 });
    expect(pid !== null && isAlive(pid)).toBe(false);
    expect(place.processes()).toEqual([]);
    expect(await readdir(place.temporaryDir)).toEqual([]);
  });

  it('stops on SIGTERM while it is still starting', async () => {
    await using place = await demoPlace();
    const demo = place.start([]);
    await eventually(async () => (await readdir(place.temporaryDir)).length > 0, 'the sample project exists');
    demo.kill('SIGTERM');
    expect(await demo.ended).toMatchObject({ exitCode: 143 });
    expect(place.processes()).toEqual([]);
    expect(await readdir(place.temporaryDir)).toEqual([]);
  });
});

/** The texts on the terminal about one of three researchers, in order. */
const toldOf = (no: number): string[] => [
  `├─ researcher ${no} begins: `,
  `│  ${no} → grep pattern: `,
  `├─ researcher ${no} ✓ its answer is delivered, after 4 steps`,
  'Here is what came back for',
  '✓ completed after',
  `─ researcher ${no} completed, 4 steps, `,
];

describe('the demo of a team', () => {
  const teamSchema = resultSchema.extend({ injected: z.literal(0), children: z.literal(3) });

  it('shows three agents at work with nothing but npm, in a temporary database where another process has the one of the folder', async () => {
    await using place = await demoPlace();
    await mkdir(place.dataDir);
    await using _owner = await lockDataDir(place.dataDir);
    const end = await place.run(['--team']);
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    expect(end.stdout).toContain(`in use by process ${process.pid}`);
    for (const no of [1, 2, 3]) expect(placesOf(end.stdout, toldOf(no))).toSatisfy(isRising);
    // Stdout is no terminal, so no colours; and no log lines of the service.
    expect(end.stdout).not.toContain('\u001b[');
    expect(end.stdout).not.toContain('{"level"');
    expect(place.processes()).toEqual([]);
    expect(await readdir(place.temporaryDir)).toEqual([]);
  });

  /** A model that answers the researchers when the gate `research` is released. */
  async function startHeldModel() {
    const model = await startModel();
    model.script('*', (request) => ({
      ...agentScript(request),
      ...(!request.tools.some(({ name }) => name === 'researcher') && { gates: { beforeFirstChunk: 'research' } }),
    }));
    return model;
  }

  it('has them work at the same time: none answers before all have begun', async () => {
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    await using model = await startHeldModel();
    const demo = place.start(['--team', '--json', 'Who?', 'What?', 'Where?'], {
      ...model.environment,
      DATABASE_URL: database.connectionString,
    });
    const asked = (): number => model.requests.filter(({ request }) => request?.model === 'gpt-5.4').length;
    await Promise.all(
      ['Who?', 'What?', 'Where?'].map((task, no) => demo.shows(`researcher ${no + 1} begins: ${task}`)),
    );
    await eventually(async () => asked() === 4, 'the one who leads and all three have asked the model');
    model.gate('research').release();
    const end = await demo.ended;
    expect(end).toMatchObject({ exitCode: 0 });
    expect(teamSchema.parse(lastLineOf(end))).toMatchObject({ steps: 2, toolCalls: 3 });
  });

  it('stops all of them on SIGINT', async () => {
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    await using model = await startHeldModel();
    const demo = place.start(['--team'], { ...model.environment, DATABASE_URL: database.connectionString });
    await Promise.all([1, 2, 3].map((no) => demo.shows(`researcher ${no} begins`)));
    demo.kill('SIGINT');
    const end = await demo.ended;
    expect(end).toMatchObject({ exitCode: 130 });
    for (const no of [1, 2, 3]) expect(end.stdout).toContain(`─ researcher ${no} cancelled`);
    const runs = await database.db.selectFrom('runs').select('status').execute();
    expect(runs.map(({ status }) => status)).toEqual(Array(4).fill('cancelled'));
  });
});

describe('the demo on given services', () => {
  it("works on one's own task in one's own folder, where the model's tools see and write real files", async () => {
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    await using model = await startModel();
    // The second answer is held until the message is sent, so that slow machines pass too.
    model.script('*', (request) => ({
      ...workspaceScript(request),
      ...(request.messages.some(({ toolCalls }) => toolCalls.length > 0)
        ? { gates: { beforeFirstChunk: 'message' } }
        : {}),
    }));
    const own = join(place.path, 'own');
    await mkdir(own);
    await writeFile(join(own, 'poem.txt'), 'The heronsong begins here.\nNothing else does.\n');
    const environment = { ...model.environment, DATABASE_URL: database.connectionString };
    const demo = place.start(['--json', '--workspace', own, 'Where', 'is heronsong?'], environment);
    await demo.shows('queued at position 1');
    model.gate('message').release();
    const end = await demo.ended;
    expect(end).toMatchObject({ exitCode: 0 });
    expect(resultSchema.parse(lastLineOf(end))).toMatchObject({ injected: 1 });
    expect(end.stderr).toContain('Where is heronsong?');
    expect(await readFile(join(own, 'baton-report.md'), 'utf8')).toContain('poem.txt:1: The heronsong begins');
    expect(model.requests.length).toBe(Number(lastLineOf(end)['steps']));
    expect(model.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it.each([
    {
      args: [],
      says: '! denied: there is no terminal to ask at',
      told: 'No person can approve a command',
      made: [],
    },
    { args: ['--yes'], says: '! approved by --yes', told: '[exit code 0]', made: ['made'] },
  ])('runs no command of a real model unasked: $args', async ({ args, says, told, made }) => {
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    await using model = await startModel();
    const own = join(place.path, 'own');
    await mkdir(own);
    model.script('*', [{ toolCalls: [{ name: 'bash', input: { command: 'touch made' } }] }, { text: 'Done.' }]);
    const environment = { ...model.environment, DATABASE_URL: database.connectionString };
    const end = await place.run([...args, '--workspace', own, 'Make it.'], environment);
    expect(end).toMatchObject({ exitCode: 0 });
    expect(end.stdout).toContain(says);
    expect(model.requests[1]?.rawBody).toContain(told);
    expect(await readdir(own)).toEqual(made);
  });

  it('ends with exit code 1 and the reason when the model refuses', async () => {
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    await using model = await startModel();
    model.fault('*', { status: 401, body: { error: { message: 'Incorrect API key', code: 'invalid_api_key' } } });
    const end = await place.run(['--json'], { ...model.environment, DATABASE_URL: database.connectionString });
    expect(end).toMatchObject({ exitCode: 1 });
    expect(lastLineOf(end)).toMatchObject({ status: 'failed', steps: 0, injected: 0 });
    expect(end.stderr).toMatch(/✗ failed \(auth: /);
    expect(place.processes()).toEqual([]);
  });

  it.runIf(inject('redisUrl') !== null)('uses the Postgres, the Redis and the API key of the environment', async () => {
    const redisUrl = inject('redisUrl') ?? '';
    await using place = await demoPlace();
    await using database = await createTestDatabase();
    const prefix = `baton-demo-${randomBytes(6).toString('hex')}`;
    await using redis = await openRedis(redisUrl, prefix);
    const { secret } = await createTestKey(database.db);
    const end = await place.run(['--json'], {
      DATABASE_URL: database.connectionString,
      REDIS_URL: redisUrl,
      BATON_QUEUE_PREFIX: prefix,
      BATON_API_KEY: secret,
    });
    expect(end).toMatchObject({ exitCode: 0 });
    const result = resultSchema.parse(lastLineOf(end));
    expect(result.backend).toBe('redis');
    expect(await redis.keys()).not.toEqual([]);
    // The client has received the whole log of its session, and each number equals the database's.
    const run = await database.db.selectFrom('runs').selectAll().executeTakeFirstOrThrow();
    const events = await database.db.selectFrom('events').select('type').execute();
    expect(run).toMatchObject({ status: 'completed', step_count: result.steps });
    expect(events.length).toBe(result.events);
    expect(events.filter(({ type }) => type === 'llm:tool-call').length).toBe(result.toolCalls);
    expect(await readdir(place.path)).toEqual(['tmp']);
  });
});

async function openRedis(url: string, prefix: string) {
  const redis = new Redis(url);
  const keys = () => redis.keys(`${prefix}*`);
  return {
    keys,
    async [Symbol.asyncDispose]() {
      const left = await keys();
      if (left.length > 0) await redis.del(...left);
      redis.disconnect();
    },
  };
}

describe('the command line of the demo', () => {
  it('refuses what it does not know with exit code 2 and the way to the help, before anything starts', async () => {
    await using place = await demoPlace();
    const wrong = [['--jason'], ['--workspace'], ['--workspace', join(place.path, 'nowhere')], ['  ']];
    for (const args of wrong) {
      const { exitCode, stdout, stderr } = await place.run(args);
      expect({ args, exitCode, stdout }).toEqual({ args, exitCode: 2, stdout: '' });
      expect(stderr).toContain('--help');
    }
    expect(await readdir(place.path)).toEqual(['tmp']);
  });

  it('explains itself', async () => {
    await using place = await demoPlace();
    const { exitCode, stdout } = await place.run(['--help']);
    expect(exitCode).toBe(0);
    for (const word of [
      '--workspace DIR',
      '--team',
      '--json',
      'OPENAI_API_KEY',
      'DATABASE_URL',
      'REDIS_URL',
      'NO_COLOR',
    ]) {
      expect(stdout).toContain(word);
    }
  });

  it('ends with exit code 1 and the reason when the database cannot be reached', async () => {
    await using place = await demoPlace();
    const end = await place.run(['--json'], { DATABASE_URL: 'postgres://postgres@127.0.0.1:1/nowhere' });
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    expect(end.stderr).toContain('ECONNREFUSED');
  });
});
