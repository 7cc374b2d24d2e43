import { z } from 'zod';
import { errorRecordSchema as error } from '../errors.ts';
import {
  compactionPartSchema,
  FINISH_REASONS,
  fileFieldsSchema,
  jsonSchema,
  sourceFieldsSchema,
  userPartSchema,
} from '../transcript/message.ts';
import { requiredActionSchema } from '../transcript/required-action.ts';
import { usageSchema } from '../usage.ts';
import { CHILD_MODES, childResultSchema } from './child.ts';
import { INCOMPLETE_REASONS, LIMIT_REASONS, SWITCH_REASONS } from './run.ts';
import { contentRefSchema, toldOutputSchema } from './run-output.ts';
import { DELIVERIES } from './session.ts';
import { driftChangeSchema, toolChangesSchema } from './tool-drift.ts';

const createdPartSchema = z.discriminatedUnion('type', [...userPartSchema.options, compactionPartSchema]);
const run = { runId: z.string() };
const step = { ...run, step: z.number().int().positive(), attempt: z.number().int().positive() };
const count = z.number().int().nonnegative();
const revertSchema = z.strictObject({
  messageId: z.string(),
  seq: z.number().int().positive(),
  uptoSeq: z.number().int().positive(),
  /** Number of these messages. */
  messages: z.number().int().positive(),
});
const child = {
  ...run,
  id: z.string(),
  toolName: z.string(),
  agent: z.string(),
  sessionId: z.string(),
  childRunId: z.string(),
};
/** The phases of a step, one after another: until the claim, the claim, the prompt, silence, the answer. */
const stepTimingSchema = z.strictObject({
  waitedMs: count,
  claimMs: count,
  viewMs: count,
  /** Null: the answer was empty. */
  firstTokenMs: count.nullable(),
  streamMs: count,
});
export type StepTiming = Readonly<z.infer<typeof stepTimingSchema>>;
/**
 * The durable events of a session by name. The session numbers them, and each is written by the transaction that it
 * describes; a reader skips unknown names.
 */
export const EVENT_SCHEMAS = {
  'run:queued': z.strictObject(run),
  'run:started': z.strictObject(run),
  'run:requires-action': z.strictObject({ ...run, calls: z.array(requiredActionSchema) }),
  'run:answered': z.strictObject({
    ...run,
    id: z.string(),
    answer: z.enum(['approve', 'deny', 'output', 'expired']),
    /** The call runs with these in place of those that the model gave. */
    args: jsonSchema.optional(),
    /** Calls that still require an action; with 0 the run goes on. */
    open: count,
  }),
  /** A call has begun or continued a session of another agent: `sessionId`, `childRunId`. `id`: the call. */
  'child:started': z.strictObject({ ...child, mode: z.enum(CHILD_MODES) }),
  /**
   * In the log of the root: calls of a session below it wait for a person or a client. `open`: number of such calls in
   * the whole tree; 0: none is left.
   */
  'child:requires-action': z.strictObject({
    runId: z.string().nullable(),
    sessionId: z.string(),
    childRunId: z.string(),
    calls: z.array(requiredActionSchema),
    open: count,
  }),
  /** The child's run has ended. `refused`: it was not begun. The numbers include its own children. */
  'child:ended': z.strictObject({
    ...child,
    status: childResultSchema.shape.status,
    error: error.optional(),
    steps: count,
    tokens: count,
    costUsd: z.number().nonnegative().nullable(),
  }),
  'run:cancelling': z.strictObject(run),
  /** `output`: left out where the run ends without a new answer. `GET /v1/runs/{id}` always has it. */
  'run:completed': z.strictObject({
    ...run,
    finishReason: z.enum(FINISH_REASONS),
    lateCancel: z.boolean().optional(),
    output: toldOutputSchema.optional(),
  }),
  'run:failed': z.strictObject({ ...run, error }),
  /** `stillRan`: the tools of the calls that had started and had no outcome when the cancel was requested. */
  'run:cancelled': z.strictObject({ ...run, stillRan: z.array(z.string()) }),
  'run:incomplete': z.strictObject({
    ...run,
    reason: z.enum(INCOMPLETE_REASONS),
    error: error.optional(),
    output: toldOutputSchema.optional(),
  }),
  /** `finalAnswerFor`: the step is the final answer after this limit. */
  'step:started': z.strictObject({
    ...step,
    messageId: z.string(),
    finalAnswerFor: z.enum(LIMIT_REASONS).optional(),
    workerId: z.string().optional(),
    /** Time from the due time of the work to its claim. */
    waitedMs: count.optional(),
  }),
  'step:retrying': z.strictObject({ ...step, error, nextAttemptAt: z.iso.datetime() }),
  'step:reset': z.strictObject({ ...run, step: z.number().int().positive(), messageId: z.string() }),
  'step:completed': z.strictObject({
    ...step,
    messageId: z.string(),
    finishReason: z.enum(FINISH_REASONS),
    toolCalls: count,
    usage: usageSchema,
    workerId: z.string().optional(),
    /** Left out, like `firstTokenMs`, by a worker that recovered the step: `llm:response` has them. */
    waitedMs: count.optional(),
    firstTokenMs: count.nullable().optional(),
  }),
  'llm:tool-call': z.strictObject({
    id: z.string(),
    messageId: z.string(),
    toolName: z.string(),
    args: jsonSchema,
    callId: z.string(),
  }),
  'llm:tool-result': z.strictObject({
    id: z.string(),
    messageId: z.string(),
    toolName: z.string(),
    callId: z.string(),
    success: z.boolean(),
    /** The result as text, with files by name. `truncated`: the middle is left out; the transcript has the whole. */
    sanitized: z.string(),
    truncated: z.literal(true).optional(),
  }),
  'llm:response': z.strictObject({
    messageId: z.string(),
    content: z.string(),
    reasoning: z.string().optional(),
    provider: z.string(),
    model: z.string(),
    finishReason: z.enum(FINISH_REASONS),
    tokenUsage: usageSchema,
    /** US dollars. Null: the price of the model is unknown. */
    costUsd: z.number().nonnegative().nullable().optional(),
    workerId: z.string().optional(),
    timing: stepTimingSchema.optional(),
    /** The request as the context meter measured it, in tokens. */
    context: z.strictObject({ usedTokens: count, usableTokens: count }).optional(),
  }),
  /** A file that the model made, kept as a blob. It comes with its answer when that is whole. */
  'llm:file': fileFieldsSchema.extend({ messageId: z.string() }),
  /** A source that the model names. It comes with its answer when that is whole. */
  'llm:source': sourceFieldsSchema.extend({ messageId: z.string() }),
  'llm:error': z.strictObject({ error, recoverable: z.boolean() }),
  /**
   * The provider refused a request for its form, and the step, or the summary of a compaction's round, is made again with
   * these changes. They are remembered for the model at this endpoint once it has taken a request with them. `text`: the
   * same in whole sentences.
   */
  'llm:adapted': z.strictObject({
    ...run,
    step: z.number().int().positive().optional(),
    round: count.optional(),
    model: z.string(),
    changes: z.array(z.strictObject({ kind: z.string(), detail: z.string() })),
    text: z.string(),
  }),
  /**
   * The models before and after. `agent`: the session's new agent, if that is another one. `reason`: the cause of the
   * switch to the next model of the agent's list.
   */
  'llm:switched': z.strictObject({
    from: z.string(),
    to: z.string(),
    agent: z.string().optional(),
    reason: z.enum(SWITCH_REASONS).optional(),
  }),
  'llm:unsupported-input': z.strictObject({ model: z.string(), mediaTypes: z.array(z.string()) }),
  /** The model calls an MCP tool that differs from its pinned definition or is gone. */
  'tools:drifted': z.strictObject({ server: z.string(), tool: z.string(), change: driftChangeSchema }),
  /** A repin took the server's current definitions. */
  'tools:pinned': toolChangesSchema,
  /** The first event of a fork. */
  'session:forked': z.strictObject({
    forkedFrom: z.strictObject({ sessionId: z.string(), messageId: z.string().nullable() }),
  }),
  /** The messages after `seq`, up to `uptoSeq`, left the transcript; with `unreverted` they came back. */
  'session:reverted': revertSchema,
  'session:unreverted': revertSchema,
  'message:queued': z.strictObject({ position: z.number().int().positive(), id: z.string() }),
  'message:dequeued': z.strictObject({ count, ids: z.array(z.string()), coalesced: z.boolean() }),
  'message:changed': z.strictObject({ id: z.string(), delivery: z.enum(DELIVERIES) }),
  'message:removed': z.strictObject({ ids: z.array(z.string()) }),
  /** Large parts are replaced by `contentRef`. `isSummary`: the message replaces older ones in the view. */
  'message:created': z
    .strictObject({
      messageId: z.string(),
      seq: z.number().int().positive(),
      role: z.enum(['user', 'assistant']),
      isSummary: z.literal(true).optional(),
      parts: z.array(createdPartSchema).optional(),
      contentRef: contentRefSchema.optional(),
    })
    .refine(({ parts, contentRef }) => (parts === undefined) !== (contentRef === undefined), 'parts or contentRef'),
  'context:compressed': z.strictObject({
    originalTokens: count,
    compressedTokens: count,
    originalMessages: count,
    compressedMessages: count,
    strategy: z.string(),
    reason: z.string(),
  }),
  'context:pruned': z.strictObject({ prunedCount: count, savedTokens: count }),
  'compaction:start': z.strictObject({
    round: count,
    strategy: z.string(),
    tokensBefore: count,
    modelLimit: count,
    reason: z.string(),
  }),
  /** `fromSeq`, `uptoSeq`: the first and the last message that the summary replaces. */
  'compaction:complete': z.strictObject({
    round: count,
    strategy: z.string(),
    tokensBefore: count,
    tokensAfter: count,
    messagesCompacted: count,
    fromSeq: count,
    uptoSeq: count,
    summaryMessageId: z.string(),
    /**
     * Tokens of the view from which the next compaction may begin, if this one left little room below the threshold:
     * what cannot be taken out is about as large.
     */
    waitsUntilTokens: count.optional(),
    wasPruned: z.boolean(),
    wasSummarized: z.boolean(),
  }),
  'compaction:failed': z.strictObject({ error, attempts: count }),
  'prune:complete': z.strictObject({ prunedCount: count, savedTokens: count, prunedTools: z.array(z.string()) }),
  /**
   * An answer does not fit the schema of its run. `repairs`: number of times that the run has asked again, with this
   * time.
   */
  'output:invalid': z.strictObject({
    ...run,
    step: z.number().int().positive(),
    problem: z.string(),
    repairs: count,
  }),
  'usage:updated': z.strictObject({ ...run, usage: usageSchema, sessionUsage: usageSchema.optional() }),
} as const;

export type EventType = keyof typeof EVENT_SCHEMAS;

export type NewEvent = { [Type in EventType]: { type: Type; data: z.infer<(typeof EVENT_SCHEMAS)[Type]> } }[EventType];

/**
 * Previews are never stored and have no number. `offset` counts the streamed characters of the message, text and
 * reasoning together; a reader drops a lower epoch and a known offset.
 */
export const LIVE_SCHEMAS = {
  'llm:thinking': z.strictObject({ ...step, messageId: z.string() }),
  /**
   * A piece of a call's input, which is streamed as unfinished JSON; the first one is empty. Pieces may be lost:
   * `offset` counts the characters of the input before this one, and `llm:tool-call` has the whole under the same `id`.
   */
  'llm:tool-input': z.strictObject({
    messageId: z.string(),
    epoch: z.number().int().nonnegative(),
    id: z.string(),
    callId: z.string(),
    toolName: z.string(),
    offset: count,
    content: z.string(),
  }),
  'llm:chunk': z.strictObject({
    messageId: z.string(),
    epoch: z.number().int().nonnegative(),
    offset: count,
    chunkType: z.enum(['text', 'reasoning']),
    content: z.string(),
  }),
} as const;

export type Chunk = z.infer<(typeof LIVE_SCHEMAS)['llm:chunk']>;
type Thinking = z.infer<(typeof LIVE_SCHEMAS)['llm:thinking']>;
export type ToolInput = z.infer<(typeof LIVE_SCHEMAS)['llm:tool-input']>;
export type ChunkEvent = { type: 'llm:chunk'; data: Chunk };
/** Previews with content, which can be joined, cut and counted. */
export type ContentEvent = ChunkEvent | { type: 'llm:tool-input'; data: ToolInput };
export type LiveEvent = ContentEvent | { type: 'llm:thinking'; data: Thinking };

export const contentLength = (event: LiveEvent): number =>
  event.type === 'llm:thinking' ? 0 : event.data.content.length;

export function withContent(event: ContentEvent, offset: number, content: string): ContentEvent {
  return event.type === 'llm:chunk'
    ? { type: event.type, data: { ...event.data, offset, content } }
    : { type: event.type, data: { ...event.data, offset, content } };
}

export type SessionEvent = Readonly<{
  seq: number;
  type: string;
  runId: string | null;
  createdAt: string;
  data: Readonly<Record<string, unknown>>;
}>;
