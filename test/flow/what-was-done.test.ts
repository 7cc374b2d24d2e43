import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ContextMeter, Message, Session, ToolPart, ViewPage } from '../../src/client/client.ts';
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

  it('is what the next request shows, message by message, with sizes, in pages', async () => {
    const { simulator } = scenario.service;
    const view = await scenario.view<ViewPage>('?limit=200');
    expect(view.next).toBeNull();
    const meter = await scenario.context<ContextMeter>();
    expect([view.tokens, view.byKind]).toEqual([meter.used, meter.byKind]);
    expect(view.messages.map(({ no }) => no)).toEqual(view.messages.map((_, at) => at + 1));
    const summary = messages.find(({ isSummary }) => isSummary);
    expect(view.messages[0]).toMatchObject({ role: 'user', seqs: expect.arrayContaining([summary?.seq]) });
    const kept = messages.filter(({ seq }) => seq > (summary?.summaryOf?.uptoSeq ?? 0)).map(({ seq }) => seq);
    expect([...new Set(view.messages.flatMap(({ seqs }) => seqs))].sort((a, b) => a - b)).toEqual(kept);
    const sum = view.messages.reduce((all, { tokens }) => all + tokens, 0);
    const { instructions = 0, tools = 0 } = view.byKind;
    expect(sum + instructions + tools).toBeGreaterThan(view.tokens * 0.9);
    expect(sum + instructions + tools).toBeLessThan(view.tokens * 1.2);

    const pages: ViewPage[] = [];
    for (let after: number | null = 0; after !== null; after = pages.at(-1)?.next ?? null) {
      pages.push(await scenario.view<ViewPage>(`?limit=3&after=${after}`));
    }
    expect(pages.flatMap((page) => page.messages)).toEqual(view.messages);
    expect(new Set(pages.map(({ version }) => version))).toEqual(new Set([view.version]));

    simulator.script('test', [{ text: 'Yes.' }]);
    expect(await scenario.ask('Still there?')).toMatchObject({ status: 'completed' });
    const sent = simulator.requests.findLast((request) => !request.summary)?.request?.messages ?? [];
    const told = sent.map(({ text, toolResults }) => {
      return [text, ...toolResults.map(({ output }) => output)].join('');
    });
    // The request has the view's texts and results in their order, and the new message after all of them.
    const shown = view.messages.flatMap(({ content }) => content.map(textIn)).join('');
    expect(told.join('')).toBe(`${shown}Still there?`);
    expect(shown).toContain('[Old tool result content cleared');
  });
});

type Content = ViewPage['messages'][number]['content'][number];

function textIn(part: Content): string {
  if (part.type === 'text') return String(part['text']);
  return part.type === 'tool-result' ? String(Object(part['output']).value) : '';
}
