import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ContextMeter, Message, Session, ToolPart } from '../../src/client/client.ts';
import { eventsOf, readingReplies } from '../compaction/compaction-support.ts';
import { type Scenario, startScenario } from './context-scenario.ts';

const LARGE = { toolCalls: [{ name: 'read', input: { path: 'large.txt', tokens: 6_000 } }] };
const ISO_TIME = /^\d{4}-\d\d-\d\dT/;

/** A session whose outputs were cut and pruned, and whose older part was summarized. */
describe('what was done to a view', () => {
  const stack = new AsyncDisposableStack();
  let scenario: Scenario;
  let messages: readonly Message[];

  beforeAll(async () => {
    scenario = stack.use(await startScenario({ window: 16_000, context: { maxContextTokens: 16_000 } }));
    scenario.service.simulator.script('test', [LARGE, ...readingReplies(8, 1_500)]);
    await scenario.ask('Read all the files.');
    await scenario.ended((await scenario.compact()).runId);
    messages = await scenario.messages<Message>();
  });
  afterAll(() => stack.disposeAsync());

  it('can be seen of parts: what was cut as it came in, and what a prune has cleared, both as they were recorded', () => {
    const calls = messages.flatMap(({ parts }) => parts.filter((part): part is ToolPart => part.type === 'tool'));
    const [cut] = calls;
    expect(cut).toMatchObject({
      truncated: true,
      originalTokens: expect.any(Number),
      outputBlobId: expect.any(String),
    });
    expect(cut?.originalTokens).toBeGreaterThan(4_000);
    const cleared = calls.filter(({ compactedAt }) => compactedAt !== undefined);
    expect(cleared.length).toBeGreaterThan(1);
    for (const { compactedAt, originalTokens, output } of cleared) {
      expect(compactedAt).toMatch(ISO_TIME);
      expect(originalTokens).toBeGreaterThan(1_000);
      expect(JSON.stringify(output)).toContain('contents of');
    }
    expect(calls.filter(({ compactedAt }) => compactedAt === undefined)).not.toEqual([]);
  });

  it('can be seen of messages, the session and its compactions: which messages a summary stands for', async () => {
    const session = await scenario.session<Session>();
    expect(session).toMatchObject({ compactionCount: 1, lastCompactionAt: expect.stringMatching(ISO_TIME) });
    const summaries = messages.filter(({ isSummary }) => isSummary);
    const [summary] = summaries;
    expect(summaries).toHaveLength(1);
    expect(summary?.summaryOf).toMatchObject({ round: 1, fromSeq: 1 });
    expect(messages.filter(({ isSummary }) => !isSummary).every(({ summaryOf }) => summaryOf === null)).toBe(true);
    const [round] = (await scenario.context<ContextMeter>()).compactions;
    expect(round).toMatchObject({ ...summary?.summaryOf, summaryMessageId: summary?.id, usage: expect.any(Object) });
    expect(round?.usage?.inputTokens).toBeGreaterThan(0);
  });

  it('is told as it happens, with the message of the summary in the place that it has in the transcript', async () => {
    const { service, sessionId } = scenario;
    const summary = messages.find(({ isSummary }) => isSummary);
    const [start] = await eventsOf(service, sessionId, 'compaction:start');
    const [complete] = await eventsOf(service, sessionId, 'compaction:complete');
    expect(start?.data).toMatchObject({ round: 1, strategy: complete?.data['strategy'], reason: 'manual' });
    expect(complete?.data).toMatchObject({ ...summary?.summaryOf, summaryMessageId: summary?.id });
    const created = await eventsOf(service, sessionId, 'message:created');
    const { id: messageId, seq, parts } = summary ?? {};
    expect(created.at(-1)?.data).toEqual({ messageId, seq, role: 'user', isSummary: true, parts });
    const [line] = service.logged.filter(({ event }) => event === 'compaction_finished');
    expect(line).toMatchObject({
      round: 1,
      tokensBefore: complete?.data['tokensBefore'],
      tokensAfter: complete?.data['tokensAfter'],
      messages: complete?.data['messagesCompacted'],
    });
  });
});
