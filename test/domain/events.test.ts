import { describe, expect, it } from 'vitest';
import { BatonError, ERROR_CODES, toErrorRecord } from '../../src/domain/errors.ts';
import { EVENT_SCHEMAS, LIVE_SCHEMAS, type NewEvent } from '../../src/domain/run/events.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';

const error = { code: 'auth', message: 'The key was refused.' } as const;
const run = { runId: 'run_1' };
const step = { ...run, step: 1, attempt: 1 };
const ACTION = {
  id: 'call_1_2',
  kind: 'approval',
  messageId: 'msg_1',
  toolName: 'bash',
  args: { command: 'ls' },
} as const;
const counts = {
  ...{ round: 1, strategy: 'manual', fromSeq: 1, uptoSeq: 2, summaryMessageId: 'msg_1' },
  ...{ tokensBefore: 10, tokensAfter: 5, messagesCompacted: 2, wasPruned: false, wasSummarized: true },
};

const child = {
  ...run,
  ...{ id: ACTION.id, toolName: 'researcher', agent: 'researcher', sessionId: 'ses_1', childRunId: 'run_2' },
};

/** One valid event of every name. */
const EVENTS: { [Type in NewEvent['type']]: Extract<NewEvent, { type: Type }>['data'] } = {
  'run:queued': run,
  'run:started': run,
  'run:requires-action': { ...run, calls: [ACTION] },
  'run:answered': { ...run, id: ACTION.id, answer: 'deny', open: 1 },
  'child:started': { ...child, mode: 'wait' },
  'child:requires-action': { runId: null, sessionId: 'ses_1', childRunId: 'run_2', calls: [ACTION], open: 1 },
  'child:ended': { ...child, status: 'completed', steps: 2, tokens: 10, costUsd: null },
  'run:cancelling': run,
  'run:completed': { ...run, finishReason: 'stop' },
  'run:failed': { ...run, error },
  'run:cancelled': { ...run, stillRan: [] },
  'run:incomplete': { ...run, reason: 'max_steps' },
  'step:started': { ...step, messageId: 'msg_1' },
  'step:retrying': { ...step, error, nextAttemptAt: '2026-11-21T00:00:00Z' },
  'step:reset': { ...run, step: 1, messageId: 'msg_1' },
  'step:completed': { ...step, messageId: 'msg_1', finishReason: 'stop', toolCalls: 0, usage: NO_USAGE },
  'llm:tool-call': { id: ACTION.id, messageId: 'msg_1', toolName: 'read', args: { path: 'a' }, callId: 'call_1' },
  'llm:tool-result': {
    id: ACTION.id,
    messageId: 'msg_1',
    toolName: 'read',
    callId: 'call_1',
    success: true,
    sanitized: 'text',
  },
  'llm:response': {
    messageId: 'msg_1',
    content: 'hi',
    provider: 'openai',
    model: 'gpt-5',
    finishReason: 'stop',
    tokenUsage: NO_USAGE,
  },
  'llm:file': { messageId: 'msg_1', mediaType: 'image/png', url: '@blob:blob_1' },
  'llm:source': { messageId: 'msg_1', sourceId: 'a' },
  'llm:error': { error, recoverable: true },
  'llm:adapted': {
    ...run,
    model: 'local/m',
    changes: [{ kind: 'bridge_roles', detail: '' }],
    text: 'A short message stands between.',
  },
  'llm:switched': { from: 'a', to: 'b' },
  'llm:unsupported-input': { model: 'a', mediaTypes: ['image/png'] },
  'tools:drifted': { server: 'docs', tool: 'search', change: 'changed' },
  'tools:pinned': { server: 'docs', added: [], changed: ['search'], removed: [] },
  'session:forked': { forkedFrom: { sessionId: 'ses_1', messageId: 'msg_1' } },
  'session:reverted': { messageId: 'msg_1', seq: 2, uptoSeq: 6, messages: 4 },
  'session:unreverted': { messageId: 'msg_1', seq: 2, uptoSeq: 6, messages: 4 },
  'message:queued': { position: 1, id: 'msg_1' },
  'message:dequeued': { count: 1, ids: ['msg_1'], coalesced: false },
  'message:changed': { id: 'msg_1', delivery: 'followup' },
  'message:removed': { ids: ['msg_1'] },
  'message:created': { messageId: 'msg_1', seq: 1, role: 'user', parts: [{ type: 'text', text: 'hi' }] },
  'context:compressed': {
    originalTokens: 10,
    compressedTokens: 5,
    originalMessages: 4,
    compressedMessages: 2,
    strategy: 'reactive-overflow',
    reason: 'threshold',
  },
  'context:pruned': { prunedCount: 1, savedTokens: 5 },
  'compaction:start': { round: 1, strategy: 'manual', tokensBefore: 10, modelLimit: 8, reason: 'threshold' },
  'compaction:complete': counts,
  'compaction:failed': { error, attempts: 1 },
  'prune:complete': { prunedCount: 1, savedTokens: 5, prunedTools: ['read'] },
  'output:invalid': { ...run, step: 1, problem: 'not JSON', repairs: 1 },
  'usage:updated': { ...run, usage: NO_USAGE },
};

describe.each(Object.entries(EVENTS))('the event %s', (type, data) => {
  const schema = Object.entries(EVENT_SCHEMAS).find(([name]) => name === type)?.[1];
  if (schema === undefined) throw new Error(`no schema for ${type}`);

  it('is taken when it is whole', () => {
    expect(schema.parse(data)).toEqual(data);
  });

  it('is refused with a field that is not its own', () => {
    expect(schema.safeParse({ ...data, apiKey: 'secret' }).success).toBe(false);
  });

  it.each(Object.keys(data))('is refused without %s', (field) => {
    const rest = Object.fromEntries(Object.entries(data).filter(([name]) => name !== field));
    expect(schema.safeParse(rest).success).toBe(false);
  });
});

describe('event schemas', () => {
  it('are all tried above', () => {
    expect(Object.keys(EVENTS)).toEqual(Object.keys(EVENT_SCHEMAS));
  });

  it('are strict inside too: an error carries neither stack nor cause', () => {
    const failed = EVENT_SCHEMAS['run:failed'];
    expect(failed.safeParse({ ...run, error: { ...error, stack: 'at …' } }).success).toBe(false);
    expect(failed.safeParse({ ...run, error: { ...error, code: 'made_up' } }).success).toBe(false);
  });

  it('take whole, positive numbers where they count', () => {
    expect(EVENT_SCHEMAS['message:queued'].safeParse({ position: 0, id: 'msg_1' }).success).toBe(false);
    expect(EVENT_SCHEMAS['context:pruned'].safeParse({ prunedCount: -1, savedTokens: 0 }).success).toBe(false);
    expect(EVENT_SCHEMAS['step:started'].safeParse({ ...step, step: 1.5, messageId: 'msg_1' }).success).toBe(false);
  });
});

describe('live previews', () => {
  const chunk = { messageId: 'msg_1', epoch: 0, offset: 0, chunkType: 'text', content: 'h' };

  it('name the place of their text, so that a reader can drop what it knows', () => {
    expect(LIVE_SCHEMAS['llm:chunk'].safeParse(chunk).success).toBe(true);
    for (const field of ['messageId', 'epoch', 'offset']) {
      expect(LIVE_SCHEMAS['llm:chunk'].safeParse({ ...chunk, [field]: undefined }).success).toBe(false);
    }
    expect(LIVE_SCHEMAS['llm:chunk'].safeParse({ ...chunk, chunkType: 'image' }).success).toBe(false);
    expect(LIVE_SCHEMAS['llm:chunk'].safeParse({ ...chunk, seq: 1 }).success).toBe(false);
    expect(LIVE_SCHEMAS['llm:thinking'].safeParse({ ...step, messageId: 'msg_1' }).success).toBe(true);
  });
});

describe('errors that are stored and shown', () => {
  it('keep their code and message, and nothing of what caused them', () => {
    const cause = new Error('sent: the whole prompt');
    expect(toErrorRecord(new BatonError('quota', 'No credit left.', { cause }))).toEqual({
      code: 'quota',
      message: 'No credit left.',
    });
    expect(new BatonError('quota', 'No credit left.', { cause }).cause).toBe(cause);
  });

  it('say nothing of an error that nobody expected', () => {
    const record = toErrorRecord(new TypeError('password=secret'));
    expect(record.code).toBe('internal');
    expect(record.message).not.toContain('secret');
    expect(ERROR_CODES).toContain(record.code);
  });
});
