import type { UIMessageChunk } from 'ai';

type Row = Readonly<{
  /** The version of the AI SDK from which on its schema has the chunk. */
  since: 5 | 6 | 7;
  chunk: UIMessageChunk;
  /** Types of the chunks that a page of an earlier version is sent in its place. */
  before?: readonly string[];
}>;

const call = { toolCallId: 'call_a' };

/** Every type of chunk that the chat writes. */
export const UI_CHUNKS: readonly Row[] = [
  { since: 5, chunk: { type: 'start', messageId: 'run_a', messageMetadata: { sessionId: 'ses_a', runId: 'run_a' } } },
  { since: 5, chunk: { type: 'start-step' } },
  { since: 5, chunk: { type: 'text-start', id: 'a' } },
  { since: 5, chunk: { type: 'text-delta', id: 'a', delta: 'Hello' } },
  { since: 5, chunk: { type: 'text-end', id: 'a' } },
  { since: 5, chunk: { type: 'reasoning-start', id: 'b' } },
  { since: 5, chunk: { type: 'reasoning-delta', id: 'b', delta: 'Hm.' } },
  { since: 5, chunk: { type: 'reasoning-end', id: 'b' } },
  { since: 5, chunk: { type: 'file', mediaType: 'image/png', url: '/v1/blobs/blob_a' } },
  { since: 5, chunk: { type: 'source-url', sourceId: 's', url: 'https://example.com/a', title: 'A page' } },
  {
    since: 5,
    chunk: { type: 'source-document', sourceId: 's', mediaType: 'text/plain', title: 'Notes', filename: 'notes.txt' },
  },
  { since: 5, chunk: { type: 'tool-input-start', ...call, toolName: 'deploy' } },
  { since: 5, chunk: { type: 'tool-input-delta', ...call, inputTextDelta: '{' } },
  { since: 5, chunk: { type: 'tool-input-available', ...call, toolName: 'deploy', input: {} } },
  { since: 5, chunk: { type: 'tool-input-error', ...call, toolName: 'deploy', input: {}, errorText: 'Half.' } },
  { since: 5, chunk: { type: 'tool-output-available', ...call, output: 1, providerExecuted: true } },
  { since: 5, chunk: { type: 'tool-output-error', ...call, errorText: 'It failed.' } },
  {
    since: 6,
    chunk: { type: 'tool-approval-request', ...call, approvalId: 'call_a', reason: 'Run it again?' },
    before: ['data-approval'],
  },
  { since: 6, chunk: { type: 'tool-output-denied', ...call }, before: ['tool-output-error'] },
  { since: 7, chunk: { type: 'tool-approval-response', approvalId: 'call_a', approved: true }, before: [] },
  {
    since: 7,
    chunk: { type: 'steering-message', id: 'msg_a', parts: [{ type: 'text', text: 'Faster' }] },
    before: ['data-steering-message'],
  },
  { since: 7, chunk: { type: 'reset-step' }, before: ['data-reset-step'] },
  { since: 5, chunk: { type: 'data-queue', id: 'queue', data: { position: 1 }, transient: true } },
  { since: 5, chunk: { type: 'data-compaction', data: { phase: 'compacting', text: 'x' }, transient: true } },
  { since: 5, chunk: { type: 'data-pruning', data: { text: 'x', prunedCount: 1, savedTokens: 1 }, transient: true } },
  { since: 5, chunk: { type: 'data-output', id: 'output', data: { a: 1 } } },
  { since: 5, chunk: { type: 'finish-step' } },
  { since: 5, chunk: { type: 'message-metadata', messageMetadata: { context: { used: 1, usable: 2 } } } },
  ...(['stop', 'length', 'content-filter', 'tool-calls', 'error', 'other'] as const).map((finishReason): Row => {
    return { since: 5, chunk: { type: 'finish', finishReason, messageMetadata: { status: 'completed' } } };
  }),
  { since: 5, chunk: { type: 'abort', reason: 'cancelled' } },
  { since: 5, chunk: { type: 'error', errorText: 'no (auth)' } },
];
