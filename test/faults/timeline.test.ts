import { describe, expect, it } from 'vitest';
import { recoveryTimes } from './world/timeline.ts';

const orphan = (runId: string, killedAtMs: number) => ({ runId, workerId: 'dead', killedAtMs });
const claim = (runId: string, atMs: number, workerId = 'next') => ({ runId, workerId, atMs });

describe('the measured recovery', () => {
  it('is from the kill to the next claim by another worker', () => {
    const claims = [claim('a', 500), claim('a', 1_100, 'dead'), claim('a', 2_200), claim('a', 2_900)];
    expect(recoveryTimes({ claims, orphans: [orphan('a', 1_000)], kills: [1_000], stops: [] })).toEqual([1_200]);
  });

  it('leaves out who was never claimed again, and who was orphaned by a kill that the end of another worker followed soon', () => {
    const claims = [claim('soon', 9_000), claim('later', 13_000)];
    const orphans = [orphan('ended', 0), orphan('soon', 5_000), orphan('later', 8_000)];
    expect(recoveryTimes({ claims, orphans, kills: [0, 5_000, 8_000], stops: [] })).toEqual([5_000]);
    expect(recoveryTimes({ claims, orphans, kills: [0, 5_000, 8_000], stops: [9_000] })).toEqual([]);
  });
});
