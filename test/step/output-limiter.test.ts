import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { estimateText } from '../../src/domain/context/meter/tokens.ts';
import type { Part, ToolOutput } from '../../src/domain/transcript/message.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createOutputLimiter, type OutputLimiter } from '../../src/step/tool-runner/output-limiter.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import type { MessageKey } from '../../src/store/transcript/message-key.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { createTestDatabase } from '../support/postgres.ts';

const LIMITS = { thresholds: { toolOutputTokens: 2_000, toolBatchTokens: 3_000 }, count: estimateText };
const SEQ = 5;

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let key: MessageKey;
beforeAll(async () => {
  database = await createTestDatabase();
  const { db } = database;
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  const session = await insertSession(db, { id: newId(), tenantId: 'default', ...agent, title: null, metadata: {} });
  key = { sessionId: session.id, messageId: newId() };
  const message = { id: key.messageId, session_id: session.id, seq: SEQ, role: 'assistant', metadata: '{}' } as const;
  await db.insertInto('messages').values(message).execute();
});
afterAll(() => database[Symbol.asyncDispose]());

const limiter = (limits: typeof LIMITS = LIMITS): OutputLimiter =>
  createOutputLimiter({ db: database.db, newId }, key, limits);

const text = (value: string): ToolOutput => ({ type: 'text', value });
const words = (count: number): string => 'word '.repeat(count);
const call = (state: 'pending' | 'completed', output?: ToolOutput): Part => ({
  type: 'tool',
  toolCallId: 'c',
  toolName: 't',
  input: {},
  state,
  ...(output !== undefined && { output }),
});
const tool = (traits: Partial<Tool>): Tool => ({
  name: 't',
  description: 't',
  inputSchema: { type: 'object' },
  execute: async () => null,
  ...traits,
});
const tokensOf = ({ output }: { output: ToolOutput }): number =>
  estimateText('value' in output ? String(output.value) : '');

describe('the results of a message', () => {
  it('stay as they are while they are small', async () => {
    const output: ToolOutput = { type: 'json', value: { a: 1 } };
    expect(await limiter().limit(1, output, tool({}))).toEqual({ output });
  });

  it('are cut to the cap of one output, and name their place and their size', async () => {
    const limited = await limiter().limit(3, text(words(9_000)), tool({}));
    expect(tokensOf(limited)).toBeLessThanOrEqual(2_000);
    expect(JSON.stringify(limited.output)).toContain(`read_tool_output, id out_${SEQ}_3]`);
    expect(limited.cut).toMatchObject({ originalTokens: estimateText(words(9_000)) });
    expect(limited.cut?.blob?.bytes.toString()).toBe(words(9_000));
  });

  it('share one budget, also when they come in at the same time', async () => {
    const results = limiter();
    results.expect(Array(8).fill(call('pending')));
    const limited = await Promise.all(
      Array.from({ length: 8 }, (_, index) => results.limit(index, text(words(9_000)), tool({}))),
    );
    const tokens = limited.map(tokensOf);
    expect(tokens.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(3_000);
    expect(Math.min(...tokens)).toBeGreaterThan(300);
  });

  it('count those that an earlier attempt left', async () => {
    const results = limiter();
    results.expect([call('completed', text(words(2_500))), call('pending'), { type: 'step-start' }]);
    expect(tokensOf(await results.limit(1, text(words(9_000)), tool({})))).toBeLessThanOrEqual(3_000 - 2_300);
  });

  it('are cut to what their tool allows', async () => {
    const { output } = await limiter().limit(1, text('a '.repeat(900)), tool({ maxOutputChars: 500 }));
    expect('value' in output ? String(output.value).length : 0).toBeLessThanOrEqual(500);
  });

  it('are not kept where the tool itself pages: it is asked for less', async () => {
    const limited = await limiter().limit(1, text(words(9_000)), tool({ paged: true }));
    expect(limited.cut).toEqual({ originalTokens: estimateText(words(9_000)) });
    expect(JSON.stringify(limited.output)).toContain('ask for less at once');
  });

  it('are measured as the thresholds are', async () => {
    const results = limiter({ ...LIMITS, count: (any) => 2 * estimateText(any) });
    expect(tokensOf(await results.limit(1, text(words(9_000)), tool({})))).toBeLessThanOrEqual(1_000);
  });

  it('are shown whole exactly where they are said to be', async () => {
    for (const count of [1_500, 2_100, 2_600]) {
      const results = limiter();
      const isWhole = results.isShownWhole(words(count), tool({}));
      expect((await results.limit(1, text(words(count)), tool({}))).cut === undefined).toBe(isWhole);
    }
  });
});
