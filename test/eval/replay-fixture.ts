import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Redis } from 'ioredis';
import { expect, inject, type TestContext, test } from 'vitest';
import { formatMismatch } from '../../eval/mismatch.ts';
import { type ReplayOptions, type ReplayResult, replayRecording } from '../../eval/replay-recording.ts';
import { parseRecording, type Recording } from '../../simulator/recording.ts';
import { parseId } from '../../src/domain/ids.ts';
import type { Db } from '../../src/store/db/database.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { RECORDINGS_FOLDER } from '../support/recordings.ts';

export type Backend = 'postgres' | 'redis';

/** A large recording on two busy processors needs longer than the others. */
export const REPLAY_TIMEOUT_MS = 600_000;

/** The Redis of a backend. Where it is needed and absent, the test is skipped and says so. */
export function redisUrlOf(backend: Backend, context: TestContext): string | undefined {
  if (backend === 'postgres') return undefined;
  return inject('redisUrl') ?? context.skip('no Redis here');
}

/** Replays a recording on its own database and checks the rules that hold after every replay. */
export async function replayOn(
  backend: Backend,
  context: TestContext,
  recording: Recording,
  options: Pick<ReplayOptions, 'window' | 'strategy' | 'provider' | 'profile' | 'signal'> = {},
): Promise<ReplayResult> {
  const redisUrl = redisUrlOf(backend, context);
  await using database = await createTestDatabase();
  const queuePrefix = `replay-test-${randomBytes(6).toString('hex')}`;
  const services = { databaseUrl: database.connectionString, redisUrl, queuePrefix };
  const result = await replayRecording(recording, { ...options, ...services, log: () => undefined });
  expect(result.violations).toEqual([]);
  if (redisUrl !== undefined) expect(await keysOf(redisUrl, queuePrefix)).toEqual([]);
  await expectSoundSession(database.db, result.sessionId);
  return result;
}

async function keysOf(redisUrl: string, prefix: string): Promise<string[]> {
  const redis = new Redis(redisUrl);
  try {
    return await redis.keys(`${prefix}*`);
  } finally {
    redis.disconnect();
  }
}

async function expectSoundSession(db: Db, publicId: string): Promise<void> {
  const sessionId = parseId('session', publicId) ?? '';
  const events = await readEvents(db, 'default', sessionId, { afterSeq: 0, limit: 1_000_000 });
  expect(events.length).toBeGreaterThan(0);
  expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
  const session = await db.selectFrom('sessions').selectAll().where('id', '=', sessionId).executeTakeFirstOrThrow();
  expect(session).toMatchObject({ status: 'idle', active_run_id: null, event_seq: events.length });
  const inbox = await db
    .selectFrom('inbox')
    .select(['seq', 'consumed_message_seq'])
    .where('session_id', '=', sessionId)
    .orderBy('seq')
    .execute();
  const taken = inbox.map((message) => message.consumed_message_seq);
  expect(taken).not.toContain(null);
  expect(taken).toEqual(taken.toSorted((a, b) => Number(a) - Number(b)));
}

/** The lines of a recording, with the header before them. */
export function recordingOf(lines: readonly object[], header: object = {}): Recording {
  const first = { type: 'transcript', name: 'test', model: 'test', ...header };
  return parseRecording([first, ...lines].map((line) => JSON.stringify(line)).join('\n'));
}

export function mismatchesOf(result: ReplayResult): string[] {
  return result.mismatches.map(formatMismatch);
}

/** A recorded conversation of the folder; the test is skipped, and says so, where it is absent. */
export function recordedFile(name: string, context: TestContext): Recording {
  const file = path.join(RECORDINGS_FOLDER, `${name}.jsonl`);
  return existsSync(file) ? parseRecording(readFileSync(file, 'utf8')) : context.skip(`no ${file} here`);
}

/**
 * Declares one test for every recorded conversation; where their folder is absent, one that is skipped and says why.
 * @param only a pattern of their names
 */
export function testRecordings(backend: Backend, only = /\.jsonl$/): void {
  const files = existsSync(RECORDINGS_FOLDER) ? readdirSync(RECORDINGS_FOLDER).filter((name) => only.test(name)) : [];
  if (files.length === 0) {
    const reason = `no recorded conversations in ${RECORDINGS_FOLDER}: set BATON_TEST_TRANSCRIPTS to their folder`;
    process.stdout.write(`tests: replay on ${backend} is skipped: ${reason}\n`);
    test('recorded conversations are replayed', (context) => context.skip(reason));
  }
  for (const file of files) {
    test(`${file} is stored as recorded`, { timeout: REPLAY_TIMEOUT_MS }, async (context) => {
      const text = readFileSync(path.join(RECORDINGS_FOLDER, file), 'utf8');
      const result = await replayOn(backend, context, parseRecording(text));
      expect(mismatchesOf(result)).toEqual([]);
      const { steps, toolCalls, userMessages } = result;
      expect({ steps, toolCalls, userMessages }).toEqual(countLines(text));
    });
  }
}

function countLines(text: string): Pick<ReplayResult, 'steps' | 'toolCalls' | 'userMessages'> {
  const lines = text.split('\n').filter((line) => line !== '');
  return {
    steps: lines.filter((line) => JSON.parse(line).type === 'step').length,
    toolCalls: lines.reduce((sum, line) => sum + (JSON.parse(line).toolCalls?.length ?? 0), 0),
    userMessages: lines.filter((line) => JSON.parse(line).type === 'user').length,
  };
}
