import { z } from 'zod';
import { ADAPTATION_KINDS } from '../../model/remedies/adaptation.ts';
import { usageSchema } from '../../usage.ts';
import { calibrationSchema } from './calibration.ts';

const COMPACTION_REASONS = ['threshold', 'tool_results', 'stream', 'overflow', 'manual'] as const;
export type CompactionReason = (typeof COMPACTION_REASONS)[number];

const count = z.number().int().nonnegative();
const place = { runId: z.string(), stepNo: z.number().int().positive() };

/**
 * Knowledge of the context layer, kept from step to step in `sessions.context_state`; a new session has `{}`. Each
 * write goes with the change that it describes, in one transaction.
 */
export const contextStateSchema = z.strictObject({
  /** Model of the anchor and the calibration, as `provider/model`. */
  model: z.string().nullable().default(null),
  /** The last billed model call. Null: none yet, or its content has changed since. */
  anchor: z.strictObject({ usage: usageSchema, messageSeq: z.number().int().positive() }).nullable().default(null),
  calibration: calibrationSchema.nullable().default(null),
  /** Estimated tokens of instructions and tools in the anchor's call. If they change, the anchor does not count. */
  overheadTokens: count.nullable().default(null),
  /** Reading after the last step, prune or compaction: tokens of the next request, and their limit. */
  meter: z.strictObject({ usedTokens: count, usableTokens: count }).nullable().default(null),
  /** Purpose of the pending compaction or prune; null: none is pending. */
  pending: z
    .strictObject({
      reason: z.enum(COMPACTION_REASONS),
      /** Compact even if the thresholds do not ask for it. */
      force: z.boolean(),
      /** Remove images and files from the view: the request was refused for its bytes. */
      stripMedia: z.boolean().default(false),
      /** Rounds that failed for a transient reason; absent: none. */
      failures: count.optional(),
    })
    .nullable()
    .default(null),
  /** Compactions since the last successful model step, for any reason except `manual`. The breaker counts them. */
  compactionsSinceStep: count.default(0),
  /** Size of the view at the last failed compaction. The next try waits until the view has grown beyond it. */
  failedAtTokens: count.nullable().default(null),
  /**
   * Size of the view that the last compaction left too near its threshold, because what cannot go takes that much. The
   * next one waits until the view has grown by half. Null: there is room below the threshold.
   */
  floorTokens: count.nullable().default(null),
  /** The log has told of a threshold without room below it. */
  isFloorLogged: z.boolean().default(false),
  /** Compactions in a row that brought no new view, for any reason except `manual`. */
  failedCompactions: count.default(0),
  /** Overflows that the provider reported for this step. */
  overflow: z
    .strictObject({ ...place, count })
    .nullable()
    .default(null),
  /** Step whose answer was stopped because the window filled up; at most once per step. */
  streamStop: z.strictObject(place).nullable().default(null),
  /** Changes with which this model is asked again in this step, because its provider refused it without them. */
  remedies: z
    .strictObject({
      ...place,
      model: z.string(),
      changes: z.array(z.strictObject({ kind: z.enum(ADAPTATION_KINDS), detail: z.string().max(500) })).max(200),
      count,
    })
    .nullable()
    .default(null),
  /** Most tokens of an answer that the provider has room for, after it refused a larger reserve in this step. */
  outputCap: z
    .strictObject({ ...place, tokens: z.number().int().positive() })
    .nullable()
    .default(null),
});
export type ContextState = Readonly<z.infer<typeof contextStateSchema>>;

export const NEW_CONTEXT_STATE: ContextState = contextStateSchema.parse({});
