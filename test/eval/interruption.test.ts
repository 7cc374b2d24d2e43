import { expect, test, vi } from 'vitest';
import { replayRecording } from '../../eval/replay-recording.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { recordingOf } from './replay-fixture.ts';

test('a replay that is interrupted cancels its run before it ends', async () => {
  await using database = await createTestDatabase();
  const work = {
    type: 'step',
    text: '',
    toolCalls: [{ id: 'a', name: 'look', input: {}, output: 'seen' }],
    finishReason: 'tool-calls',
  };
  const recording = recordingOf([{ type: 'user', text: 'Go.' }, ...Array.from({ length: 2000 }, () => work)]);
  const interruption = new AbortController();
  const replay = replayRecording(recording, {
    databaseUrl: database.connectionString,
    signal: interruption.signal,
    log: () => undefined,
  });
  const statuses = async () =>
    (await database.db.selectFrom('runs').select('status').execute()).map((run) => run.status);
  await vi.waitFor(async () => expect(await statuses()).toEqual(['running']), { timeout: 30_000 });
  interruption.abort(new Error('enough'));
  await expect(replay).rejects.toThrow('enough');
  expect(await statuses()).toEqual(['cancelled']);
});
