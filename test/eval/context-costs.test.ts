import { existsSync, readdirSync } from 'node:fs';
import { test } from 'vitest';
import { RECORDINGS_FOLDER } from '../support/recordings.ts';
import { expectCost } from './recorded-costs.ts';
import { REPLAY_TIMEOUT_MS, recordedFile, replayOn } from './replay-fixture.ts';

const WINDOWS = [16_000, 32_000];
/** Replayed in compacting.test.ts, which looks at its cost as well: it takes half a minute. */
const LARGE = 'coding-refactor-484-calls';

const names = existsSync(RECORDINGS_FOLDER)
  ? readdirSync(RECORDINGS_FOLDER).flatMap((file) => (file.endsWith('.jsonl') ? [file.slice(0, -'.jsonl'.length)] : []))
  : [];
const replays = names.filter((name) => name !== LARGE).flatMap((name) => WINDOWS.map((window) => ({ name, window })));

if (replays.length === 0) {
  const reason = `no recorded conversations in ${RECORDINGS_FOLDER}: set BATON_TEST_TRANSCRIPTS to their folder`;
  process.stdout.write(`tests: what recorded conversations cost is left out: ${reason}\n`);
  test('recorded conversations cost no more than they may', (context) => context.skip(reason));
}

test.for(replays)(
  '$name in a window of $window tokens costs no more than it may',
  { timeout: REPLAY_TIMEOUT_MS },
  async ({ name, window }, context) => {
    const { context: metrics } = await replayOn('postgres', context, recordedFile(name, context), { window });
    expectCost(name, window, metrics, context);
  },
);
