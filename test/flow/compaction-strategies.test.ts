import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  agentWith,
  eventsOf,
  readingReplies,
  readTool,
  requestsOf,
  roundsOf,
  sessionOf,
} from '../compaction/compaction-support.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const backend = anyBackend();
const WINDOW = 16_000;
const TASK = 'Read all the files. Never touch the file secrets.txt.';

async function smallService(environment: Record<string, string> = {}): Promise<TestService> {
  const service = await startTestService({ backend, tools: [readTool], environment });
  service.simulator.setWindow('test', WINDOW);
  await service.startWorker();
  return service;
}

/** A service with a second model, `simulated-chat/small`, of this window. */
async function serviceWithSmallModel(contextWindow: number): Promise<TestService> {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'baton-models-'));
  const file = path.join(folder.path, 'models.yaml');
  const small = { provider: 'simulated-chat', model: 'small', contextWindow, maxOutput: 2_000 };
  await writeFile(file, JSON.stringify([small]));
  const service = await smallService({ BATON_MODELS_FILE: file });
  service.simulator.setWindow('small', contextWindow);
  return service;
}

const policyOf = (compaction: Record<string, unknown>) => ({
  maxContextTokens: WINDOW,
  prune: { enabled: false },
  compaction,
});

async function readFiles(service: TestService, session: string, count: number, tokens = 1_500) {
  service.simulator.script('test', readingReplies(count, tokens));
  const run = await service.ended((await service.send(session, TASK)).runId);
  expect(run.status).toBe('completed');
  const { steps, violations } = requestsOf(service);
  expect(violations).toEqual([]);
  expect(steps.filter(({ refusal }) => refusal !== undefined)).toEqual([]);
  for (const { request } of steps) expect(request?.messages.map(({ text }) => text).join('\n')).toContain(TASK);
}

describe('strategies', () => {
  it('proactive-threshold compacts at half of the window', async () => {
    await using service = await smallService();
    const session = await service.createSession(agentWith(policyOf({ strategy: 'proactive-threshold' })));
    await readFiles(service, session, 12);
    const rounds = await roundsOf(service, session);
    expect(rounds.length).toBeGreaterThan(1);
    for (const { strategy, state, tokens_before } of rounds) {
      expect({ strategy, state }).toEqual({ strategy: 'proactive-threshold', state: 'completed' });
      expect(tokens_before).toBeLessThan(WINDOW * 0.75);
    }
  });

  it('middle-removal asks no model', async () => {
    await using service = await smallService();
    const session = await service.createSession(agentWith(policyOf({ strategy: 'middle-removal' })));
    await readFiles(service, session, 12);
    expect(requestsOf(service).summaries).toEqual([]);
    const [round] = await roundsOf(service, session);
    expect(round).toMatchObject({
      strategy: 'middle-removal',
      state: 'completed',
      attempts: 0,
      usage: { inputTokens: 0 },
    });
    expect(await eventsOf(service, session, 'compaction:complete')).toMatchObject([{ data: { wasSummarized: false } }]);
  });

  it('pruning-agent puts the pruned conversation in the place of the old one', async () => {
    await using service = await smallService();
    const session = await service.createSession(agentWith(policyOf({ strategy: 'pruning-agent' })));
    await readFiles(service, session, 12);
    const [round] = await roundsOf(service, session);
    expect(round).toMatchObject({ strategy: 'pruning-agent', state: 'completed', attempts: 1 });
    const last = requestsOf(service).steps.at(-1)?.request?.messages[0]?.text;
    expect(last).toContain('## Conversation, pruned');
  });

  // Field bug: ironclaw#7484, a window of messages that lost the task; `readFiles` looks for it in every request.
  it('pruning-agent keeps the last messages, whole steps, when three restarts bring no JSON', async () => {
    await using service = await smallService();
    service.simulator.summaries([], 'garbage');
    const session = await service.createSession(agentWith(policyOf({ strategy: 'pruning-agent' })));
    await readFiles(service, session, 12);
    const [round] = await roundsOf(service, session);
    expect(round).toMatchObject({ strategy: 'pruning-agent', state: 'completed', attempts: 4 });
    expect(requestsOf(service).summaries.length).toBe(4 * (await roundsOf(service, session)).length);
  });

  it('reactive-overflow never compacts by a threshold, only when the request does not fit any more', async () => {
    await using service = await smallService();
    const session = await service.createSession(agentWith(policyOf({ strategy: 'reactive-overflow' })));
    await readFiles(service, session, 12);
    const rounds = await roundsOf(service, session);
    expect(rounds.length).toBeGreaterThan(0);
    for (const round of rounds) expect(round.tokens_before).toBeGreaterThan(WINDOW * 0.9);
  });

  // Field bug: Roo-Code#11785, no cheap model for it.
  it('summarizes with another model in pieces that fit its window, and merges them', async () => {
    await using service = await serviceWithSmallModel(6_000);
    const session = await service.createSession(
      agentWith(policyOf({ model: 'simulated-chat/small', options: { thresholdPercent: 80 } })),
    );
    await readFiles(service, session, 45, 350);
    const { summaries } = requestsOf(service);
    expect(new Set(summaries.map(({ model }) => model))).toEqual(new Set(['small']));
    expect(summaries.filter(({ refusal }) => refusal !== undefined)).toEqual([]);
    const rounds = await roundsOf(service, session);
    expect(new Set(rounds.map(({ state }) => state))).toEqual(new Set(['completed']));
    expect(Math.max(...rounds.map(({ attempts }) => attempts))).toBeGreaterThan(1);
    // The next request has the whole summary of the pieces before.
    expect(summaries[1]?.request?.messages.at(-1)?.text).toContain('<previous_summary>\n## Goal');
  });

  it('tells a model with a very small window what the user demanded, also where the rest is too much for it', async () => {
    await using service = await serviceWithSmallModel(4_000);
    const session = await service.createSession(
      agentWith(policyOf({ model: 'simulated-chat/small', options: { thresholdPercent: 80 } })),
    );
    await readFiles(service, session, 1, 100);
    service.simulator.script('test', [{ text: 'As you wish.' }]);
    await service.ended((await service.send(session, 'Never touch the file plans.txt.')).runId);
    await readFiles(service, session, 60, 200);
    const [first] = requestsOf(service).summaries;
    const given = first?.request?.messages.at(-1)?.text;
    expect(given).toMatch(/messages were removed to make room/);
    expect(given).toContain(': Never touch the file plans.txt.');
    expect((await roundsOf(service, session))[0]).toMatchObject({ state: 'completed', attempts: 4 });
  });
});

describe('a compaction that somebody asks for', () => {
  it('runs in a run of its own, is recorded, and is not repeated on its own output', async () => {
    await using service = await smallService();
    const session = await service.createSession(agentWith(policyOf({})));
    await readFiles(service, session, 5);
    const ask = async () => service.ended((await service.maintain(session, 'compaction')).runId);
    expect(await ask()).toMatchObject({ kind: 'maintenance', status: 'completed' });
    const [round] = await roundsOf(service, session);
    expect(round).toMatchObject({ reason: 'manual', state: 'completed', attempts: 1 });
    const counted = await sessionOf(service, session);
    expect(counted).toMatchObject({ compaction_count: 1, compacting_since: null });
    expect(Number(counted.input_tokens)).toBeGreaterThan(round?.tokens_before ?? 0);
    expect(await ask()).toMatchObject({ status: 'completed' });
    expect((await roundsOf(service, session)).length).toBe(1);
    service.simulator.script('test', [{ text: 'Here.' }]);
    await service.ended((await service.send(session, 'Are you there?')).runId);
    const { steps, violations } = requestsOf(service);
    expect(violations).toEqual([]);
    expect(steps.at(-1)?.request?.messages[0]?.text).toContain('<conversation_summary>');
  });
});
