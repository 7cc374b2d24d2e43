import { z } from 'zod';
import { usageSchema } from '../../usage.ts';
import { calibrationSchema } from './calibration.ts';

/** Why a compaction is under way. */
const COMPACTION_REASONS = ['threshold', 'tool_results', 'stream', 'overflow', 'manual'] as const;
export type CompactionReason = (typeof COMPACTION_REASONS)[number];

const count = z.number().int().nonnegative();
const place = { runId: z.string(), stepNo: z.number().int().positive() };

/**
 * What the context layer knows of a session from step to step. One value, written only by whoever holds the session's
 * run and together with what it describes; a new session has the value of `{}`.
 */
export const contextStateSchema = z.strictObject({
  /** `provider/model` that the anchor and the calibration belong to. */
  model: z.string().nullable().default(null),
  /** The last model call as it was billed. Null before the first, and after anything that rewrote what it was sent. */
  anchor: z.strictObject({ usage: usageSchema, messageSeq: z.number().int().positive() }).nullable().default(null),
  calibration: calibrationSchema.nullable().default(null),
  /** Estimated tokens of instructions and tool schemas in the anchor's call: others, and it is no anchor any more. */
  overheadTokens: count.nullable().default(null),
  /** The meter after the last step, prune or compaction: tokens of the next request, and what it may hold. */
  meter: z.strictObject({ usedTokens: count, usableTokens: count }).nullable().default(null),
  /** What the pending compaction or prune is for; null when none is pending. */
  pending: z
    .strictObject({
      reason: z.enum(COMPACTION_REASONS),
      /** Compact although the thresholds do not ask for it. */
      force: z.boolean(),
      /** Take images and files out of the view: the request was refused for its bytes. */
      stripMedia: z.boolean().default(false),
      /** Its rounds that failed for what passes by itself; absent: none. */
      failures: count.optional(),
    })
    .nullable()
    .default(null),
  /** Compactions since the last model step that succeeded, on whatever route: what the breaker counts. */
  compactionsSinceStep: count.default(0),
  /** Size of the view when a compaction last failed; it is tried again once the view has grown beyond it. */
  failedAtTokens: count.nullable().default(null),
  /** Overflows that the provider reported for this step. */
  overflow: z
    .strictObject({ ...place, count })
    .nullable()
    .default(null),
  /** The step whose answer was stopped because the window filled up: once per step. */
  streamStop: z.strictObject(place).nullable().default(null),
  /** Most tokens of an answer that the provider has room for, after it refused a larger reserve in this step. */
  outputCap: z
    .strictObject({ ...place, tokens: z.number().int().positive() })
    .nullable()
    .default(null),
});
export type ContextState = Readonly<z.infer<typeof contextStateSchema>>;

/** The state of a session whose context nobody has looked at. */
export const NEW_CONTEXT_STATE: ContextState = contextStateSchema.parse({});
