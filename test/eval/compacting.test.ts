import { expect, test } from 'vitest';
import { missedBars } from '../../eval/metrics/bars.ts';
import type { ReplayProvider } from '../../eval/replayed-agent.ts';
import { expectCost } from './recorded-costs.ts';
import { type Backend, mismatchesOf, REPLAY_TIMEOUT_MS, recordedFile, replayOn } from './replay-fixture.ts';

/** The provider's tokens drift by 40 % in each of them; the last one is the size of a day's work. */
const COMPACTING: readonly (readonly [string, number, ReplayProvider, Backend])[] = [
  ['swe-pandas-dev-pandas-53652', 16_000, 'anthropic', 'postgres'],
  ['coding-refactor-484-calls', 64_000, 'openai', 'redis'],
];

test.for(COMPACTING)(
  '%s keeps its task in a window of %i tokens of %s on %s',
  { timeout: REPLAY_TIMEOUT_MS },
  async ([name, window, provider, backend], context) => {
    const result = await replayOn(backend, context, recordedFile(name, context), { window, provider });
    expect(mismatchesOf(result)).toEqual([]);
    if (result.context === null) throw new Error('nothing was measured');
    expect(missedBars(result.context)).toEqual([]);
    const { compactions, summaryCalls, estimator } = result.context;
    expect(compactions).toBeGreaterThan(0);
    expect(summaryCalls).toBe(compactions);
    expect(estimator.coldStartWorst).toBeGreaterThan(-0.1);
    if (provider === 'openai') expectCost(name, window, result.context, context);
  },
);

test('a message that leaves no room for anything else ends the run, and names it', async (context) => {
  const recording = recordedFile('coding-refactor-484-calls', context);
  const result = await replayOn('postgres', context, recording, { window: 16_000 });
  expect(mismatchesOf(result)[0]).toMatch(/context_exhausted: The message with tool results no\. \d+ \(\d+ tokens\)/);
  expect(result.context).toMatchObject({ exhausted: 1, rejectedByWindow: 0, orphans: 0, invalidViews: 0 });
});
