import { z } from 'zod';
import { usageSchema } from '../usage.ts';
import { contentRefSchema } from './run-output.ts';
import { DELIVERIES, SESSION_STATUSES } from './session.ts';

const chunkSchema = z.strictObject({
  chunkType: z.enum(['text', 'reasoning']),
  content: z.string(),
  /** Start within the message in UTF-16 units, counting text and reasoning together. */
  offset: z.number().int().nonnegative(),
});

/** The first item of a reader: the session as of event `seq`. Later items are newer, or a replay up to it. */
export const sessionSnapshotSchema = z.strictObject({
  sessionId: z.string(),
  status: z.enum(SESSION_STATUSES),
  activeRunId: z.string().nullable(),
  seq: z.number().int().nonnegative(),
  /** Number of queued messages, and the first of them. A large content is replaced by `contentRef`. */
  queueLength: z.number().int().nonnegative(),
  queue: z.array(
    z.strictObject({
      id: z.string(),
      position: z.number().int().positive(),
      delivery: z.enum(DELIVERIES),
      content: z.array(z.unknown()).optional(),
      contentRef: contentRefSchema.optional(),
      enqueuedAt: z.iso.datetime(),
    }),
  ),
  /** The open message with its text so far. Deltas continue after it. */
  inFlight: z
    .strictObject({
      messageId: z.string(),
      runId: z.string(),
      step: z.number().int().positive(),
      epoch: z.number().int().nonnegative(),
      chunks: z.array(chunkSchema),
    })
    .nullable(),
  /**
   * True: events after the reader's cursor are gone, or Postgres has gone back in time, so this replaces the state that
   * it knows.
   */
  reset: z.boolean(),
  usage: usageSchema,
  /** Set while a compaction is running. Messages are still accepted. */
  compactingSince: z.iso.datetime().nullable(),
  /** Tokens of the next request, and their limit. Null: before the first step. */
  context: z.strictObject({ used: z.number().int(), usable: z.number().int() }).nullable(),
});

export type SessionSnapshot = z.infer<typeof sessionSnapshotSchema>;

export type SnapshotChunk = z.infer<typeof chunkSchema>;
