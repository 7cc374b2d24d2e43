import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { cancelTimes, createTimeline, recoveryTimes } from './world/timeline.ts';

const orphan = (runId: string, killedAtMs: number) => ({ runId, workerId: 'dead', killedAtMs });
const claim = (runId: string, atMs: number, workerId = 'next') => ({ runId, workerId, atMs });

describe('the measured recovery', () => {
  it('is from the kill to the next claim by another worker', () => {
    const claims = [claim('a', 500), claim('a', 1_100, 'dead'), claim('a', 2_200), claim('a', 2_900)];
    expect(recoveryTimes({ claims, orphans: [orphan('a', 1_000)], kills: [1_000], stops: [], crashes: [] })).toEqual([
      1_200,
    ]);
  });

  it('leaves out who was never claimed again, and who was orphaned by a kill that the end of another worker or a crash followed soon', () => {
    const claims = [claim('soon', 9_000), claim('later', 13_000)];
    const orphans = [orphan('ended', 0), orphan('soon', 5_000), orphan('later', 8_000)];
    expect(recoveryTimes({ claims, orphans, kills: [0, 5_000, 8_000], stops: [], crashes: [] })).toEqual([5_000]);
    expect(recoveryTimes({ claims, orphans, kills: [0, 5_000, 8_000], stops: [9_000], crashes: [] })).toEqual([]);
    expect(recoveryTimes({ claims, orphans, kills: [0, 5_000, 8_000], stops: [], crashes: [9_000] })).toEqual([]);
  });
});

describe('the recoveries', () => {
  it('are those of all runs but the ones whose job a process said it could not add', () => {
    const timeline = createTimeline(undefined);
    const recovered = { event: 'run_recovered', reason: 'job_lost' };
    timeline.hear('w1', { ...recovered, runId: 'run_a' });
    timeline.hear('w1', { ...recovered, runId: 'run_b' });
    timeline.hear('w2', { ...recovered, runId: 'run_c' });
    timeline.hear('w2', { event: 'run_recovered', reason: 'worker_dead', runId: 'run_b' });
    timeline.hear('w2', { event: 'jobs_not_enqueued', runIds: ['run_b'] });
    timeline.hearApi({ event: 'jobs_not_enqueued', runIds: ['run_c'] });
    expect(timeline.recoveries()).toEqual(['job_lost', 'worker_dead']);
  });
});

const RAW = { session: '018f0000-0000-7000-8000-00000000000a', run: '018f0000-0000-7000-8000-00000000000b' };
const OTHER_RUN = '018f0000-0000-7000-8000-00000000000c';

describe('the measured cancel', () => {
  const cancel = {
    sessionId: formatId('session', RAW.session),
    runId: formatId('run', RAW.run),
    sentAtMs: 5_000,
  };
  const request = { cacheKey: RAW.session, startedAtMs: 4_900, endedAtMs: 5_030, abortedAtMs: 5_030 };
  const claimed = (runId: string, saidAtMs: number) => ({ runId, sessionId: RAW.session, saidAtMs });
  const measured = (claims: Parameters<typeof cancelTimes>[0]['timeline']['claims'], startedAtMs = 0): number[] =>
    cancelTimes({ simulator: { requests: [request] }, timeline: { claims } }, { startedAtMs, cancels: [cancel] });

  it('is from the request to the end of what the model was answering the run', () => {
    expect(measured([claimed(OTHER_RUN, 4_000), claimed(RAW.run, 4_890), claimed(OTHER_RUN, 5_060)])).toEqual([30]);
  });

  it('leaves out what another run of the session was being answered, and the first moments of a world', () => {
    expect(measured([claimed(RAW.run, 4_000), claimed(OTHER_RUN, 4_890)])).toEqual([]);
    expect(measured([claimed(RAW.run, 4_890)], 2_500)).toEqual([]);
  });
});
