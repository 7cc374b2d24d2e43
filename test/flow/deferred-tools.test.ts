import { describe, expect, it } from 'vitest';
import { agentWith, readingReplies, readTool, requestsOf } from '../compaction/compaction-support.ts';
import { startTestService } from '../support/service.ts';
import { createServerFiles } from '../tools/mcp-fixture.ts';

describe('tools that have to be found', () => {
  it('are offered once the view refers to them, and no longer when a compaction has taken that out of it', async () => {
    using files = createServerFiles(
      { name: 'lookup', description: 'Looks up a word.' },
      { name: 'translate', description: 'Says it in French.' },
    );
    await using service = await startTestService({ backend: 'postgres', tools: [readTool] });
    const { simulator } = service;
    simulator.setWindow('test', 16_000);
    simulator.script('test', [
      { toolCalls: [{ name: 'search_tools', input: { query: 'look up a word' } }] },
      { toolCalls: [{ name: 'own__lookup', input: { word: 'kettle' } }] },
      ...readingReplies(16, 1_500),
    ]);
    await service.startWorker();
    const server = { ...files.config, args: [...files.config.args], timeoutMs: 60_000, trust: false };
    const policy = { maxContextTokens: 16_000, prune: { enabled: false } };
    const session = await service.createSession(
      agentWith(policy, { mcpServers: { own: server }, tools: ['test', { mcp: 'own', deferred: true }] }),
    );
    const run = await service.ended((await service.send(session, 'Look up a word, then read.')).runId);
    expect(run).toMatchObject({ status: 'completed' });
    const { steps, summaries, violations } = requestsOf(service);
    expect(violations).toEqual([]);
    expect(files.ledger().length).toBe(1);
    const offered = steps.map(({ request }) => request?.tools.map(({ name }) => name) ?? []);
    const always = ['read', 'search_tools', 'read_tool_output', 'list_touched_files'];
    expect(offered[0]?.toSorted()).toEqual(always.toSorted());
    expect(offered[1]?.toSorted()).toEqual([...always, 'own__lookup'].toSorted());
    expect(offered.flat()).not.toContain('own__translate');
    // Summaries were made, and the search and its call are in the first of them.
    expect(summaries.length).toBeGreaterThan(0);
    expect(offered.at(-1)?.toSorted()).toEqual(always.toSorted());
  });
});
