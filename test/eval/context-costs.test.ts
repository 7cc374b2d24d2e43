import { existsSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { costOfRaw, formatCost } from '../../eval/metrics/bars.ts';
import { RECORDINGS_FOLDER } from '../support/recordings.ts';
import { REPLAY_TIMEOUT_MS, recordedFile, replayOn } from './replay-fixture.ts';

/** Costs of conversations that are too large for their window, as shares of raw. Lower them with every gain. */
const RECORDED_COSTS: Readonly<Record<string, number>> = {
  'airline-00 16k': 1.038,
  'airline-02 16k': 1.004,
  'airline-04 16k': 0.974,
  'coding-refactor-484-calls 64k': 0.196,
  'swe-pandas-dev-pandas-53652 16k': 1.086,
  'swe-pydantic-pydantic-8316 16k': 0.977,
};
/** Costs differ a little where another tokenizer counts part of the tokens. */
const TOLERANCE = 1.005;

const LARGE = { name: 'coding-refactor-484-calls', windows: [64_000] };
const WINDOWS = [16_000, 32_000];

const names = existsSync(RECORDINGS_FOLDER)
  ? readdirSync(RECORDINGS_FOLDER).flatMap((file) => (file.endsWith('.jsonl') ? [file.slice(0, -'.jsonl'.length)] : []))
  : [];
const replays = names.flatMap((name) =>
  (name === LARGE.name ? LARGE.windows : WINDOWS).map((window) => ({ name, window })),
);

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
    if (metrics === null) throw new Error('nothing was measured');
    const cost = costOfRaw(metrics);
    const key = `${name} ${window / 1000}k`;
    const recorded = RECORDED_COSTS[key];
    if (cost.goal === null && recorded === undefined) {
      context.skip(`nothing is recorded of ${key}: ${formatCost(cost)}`);
    }
    expect(cost.share, formatCost(cost)).toBeLessThanOrEqual(cost.goal ?? Number(recorded) * TOLERANCE);
  },
);
