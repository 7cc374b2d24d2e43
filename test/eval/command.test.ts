import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { run as runCommand } from '../../eval/replay.ts';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { createTestKey } from '../support/keys.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { redisUrlOf } from './replay-fixture.ts';

const COMMAND = join(import.meta.dirname, '../../eval/run.ts');
const LINES = [
  { type: 'transcript', name: 'small', model: 'm' },
  { type: 'user', text: 'Look.' },
  {
    type: 'step',
    text: '',
    toolCalls: [{ id: 'a', name: 'look', input: {}, output: 'seen' }],
    finishReason: 'tool-calls',
  },
  { type: 'step', text: 'Seen.', toolCalls: [], finishReason: 'stop' },
];
const COUNTS = { steps: 2, toolCalls: 1, userMessages: 1 };

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'replay-test-'));
  file = join(folder, 'small.jsonl');
  await writeFile(file, LINES.map((line) => JSON.stringify(line)).join('\n'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Runs the command with its temporary files in `folder`. */
async function run(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const env = childEnvironment({ TMPDIR: folder, ...environment });
  const child = spawn(process.execPath, [COMMAND, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { stdout, stderr, code };
}

/** Runs the command in this process with arguments that it refuses, and returns its stderr. It starts nothing. */
async function refuse(args: readonly string[]) {
  using said = vi.spyOn(console, 'error').mockReturnValue();
  const code = await runCommand(args, {});
  return { stderr: said.mock.calls.flat().join('\n'), code };
}

test('without any service it replays on an embedded Postgres and leaves no files', async () => {
  const { stdout, stderr, code } = await run([file, '--json']);
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual({
    ...COUNTS,
    mismatches: 0,
    durationMs: expect.any(Number),
    stepsPerSecond: expect.any(Number),
  });
  expect(stdout.trim().split('\n')).toHaveLength(1);
  expect(code).toBe(0);
  expect(await readdir(folder)).toEqual(['small.jsonl']);
});

test('on given services it replays there and says so in a sentence', async (context) => {
  const redisUrl = redisUrlOf('redis', context) ?? '';
  await using database = await createTestDatabase();
  const { secret } = await createTestKey(database.db);
  const environment = { DATABASE_URL: database.connectionString, REDIS_URL: redisUrl, BATON_API_KEY: secret };
  const { stdout, stderr, code } = await run([file], environment);
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
  expect(stdout).toMatch(/^2 steps, 1 tool calls, 1 user messages in .*: equal to the recording\.\n$/);
});

test('mismatches are described on stderr and end it with exit code 1', async () => {
  await using database = await createTestDatabase();
  const { stdout, stderr, code } = await run([file, '--json', '--window', '5'], {
    DATABASE_URL: database.connectionString,
  });
  const counts = { steps: 0, toolCalls: 0, userMessages: 1, mismatches: 3 };
  expect(JSON.parse(stdout)).toMatchObject({ ...counts, calls: 0, exhausted: 1, rejectedByWindow: 0 });
  expect(stderr).toContain('run: expected the recorded end, found The run ended as incomplete');
  expect(stderr).toContain('line 3 (step): expected a message, found none');
  expect(code).toBe(1);
});

test('a database in which other runs are active is left alone', async () => {
  await using database = await createTestDatabase();
  const [sessionId, runId] = [newId(), newId()];
  await insertSession(database.db, {
    id: sessionId,
    tenantId: 'default',
    agentName: 'other',
    agentVersion: '1',
    agentSnapshot: {},
    title: null,
    metadata: {},
  });
  const content = [{ type: 'text' as const, text: 'Hi.' }];
  const message = { tenantId: 'default', sessionId, messageId: newId(), content, runId };
  await acceptMessage(database.db, message);
  const { stderr, code } = await run([file], { DATABASE_URL: database.connectionString });
  expect(stderr).toContain('Other runs are active in this database');
  expect(code).toBe(2);
  const sessions = await database.db.selectFrom('sessions').select('id').execute();
  expect(sessions.map(({ id }) => formatId('session', id))).toEqual([formatId('session', sessionId)]);
});

test.each([
  [['--backend', 'redis'], '--backend redis needs REDIS_URL'],
  [['--backend', 'kafka'], '--backend takes redis or postgres'],
  [['--window', 'wide'], '--window takes a number of tokens'],
  [['--strategy', 'hope'], '--strategy takes one of auto'],
  [['--provider', 'acme'], '--provider takes openai or anthropic'],
  [['--fast'], "Unknown option '--fast'"],
  [['another.jsonl'], 'one file at a time'],
])('%j is refused with the reason', async (args, reason) => {
  const { stderr, code } = await refuse([file, ...args]);
  expect(stderr).toContain(reason);
  expect(code).toBe(2);
});

test('a file that is no recording is refused with the reason', async () => {
  await writeFile(file, '{"type":"user","text":"x"}');
  expect(await refuse([file])).toMatchObject({ stderr: expect.stringContaining('Line 1'), code: 2 });
  expect(await refuse([])).toMatchObject({ stderr: expect.stringContaining('name the file'), code: 2 });
  expect(await refuse(['--matrix'])).toMatchObject({ stderr: expect.stringContaining('name the folder'), code: 2 });
  expect(await refuse([join(folder, 'none')])).toMatchObject({ stderr: expect.stringContaining('ENOENT'), code: 2 });
});
