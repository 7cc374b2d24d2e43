import { describe, expect, it } from 'vitest';
import {
  agentWith,
  eventsOf,
  readingReplies,
  readTool,
  requestsOf,
  roundsOf,
} from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';

describe.each(availableBackends())('a compaction on %s', (backend) => {
  // Field bugs: opencode#13217, pi#4274 stopped after one; goose PR #11681 looked only at the start of a turn.
  it('keeps a run inside a small window: summary first, first user message verbatim, every request taken', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.setWindow('test', 16_000);
    service.simulator.script('test', readingReplies(16, 1_500));
    await service.startWorker();
    const session = await service.createSession(agentWith({ maxContextTokens: 16_000, prune: { enabled: false } }));
    const task = 'Read all the files. Never touch the file secrets.txt.';
    const run = await service.ended((await service.send(session, task)).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 17 });
    const { steps, summaries, violations } = requestsOf(service);
    expect(violations).toEqual([]);
    expect(service.simulator.requests.filter(({ refusal }) => refusal !== undefined)).toEqual([]);
    expect(summaries.length).toBeGreaterThan(0);
    for (const { request } of steps) {
      expect(request?.messages.map(({ text }) => text).join('\n')).toContain(task);
    }
    const rounds = await roundsOf(service, session);
    expect(rounds.map(({ state, round }) => ({ state, round }))).toEqual(
      summaries.map((_, index) => ({ state: 'completed', round: index + 1 })),
    );
    expect((await eventsOf(service, session, 'compaction:complete')).length).toBe(rounds.length);
  });
});
