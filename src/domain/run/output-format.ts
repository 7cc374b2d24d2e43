import { z } from 'zod';
import { givenSchema, schemaBy } from '../object-schema.ts';
import { readOutputSchema } from './output-schema.ts';

/**
 * Ways to ask a model for a result that fits a schema.
 * - `native`: the provider makes every answer fit.
 * - `tool`: the model gives the result by calling a tool, `final_result`, whose input is the schema.
 * - `last`: one step more, without tools, after the model has answered.
 * - `auto`: the first of them that the provider can do, by `OUTPUT_RULES`.
 */
export const OUTPUT_MODES = ['auto', 'native', 'tool', 'last'] as const;
export type OutputMode = (typeof OUTPUT_MODES)[number];

export const OUTPUT_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

/** The result that a run is asked for. */
export const outputFormatSchema = z.strictObject({
  schema: givenSchema.transform(schemaBy(readOutputSchema)),
  mode: z.enum(OUTPUT_MODES).optional(),
  /** The schema's name in the provider's request. */
  name: z.string().regex(OUTPUT_NAME, 'letters, digits, - and _, at most 64').optional(),
});
export type OutputFormat = Readonly<z.infer<typeof outputFormatSchema>>;

/** State of a run on the way to its result. */
export const outputStateSchema = z.strictObject({
  /** Answers that did not fit and were asked for again. */
  repairs: z.number().int().nonnegative(),
  /** The fault of the last answer, in the words that the model reads. */
  problem: z.string().optional(),
  /** The next step gives the result: see the mode `last`. */
  isLast: z.literal(true).optional(),
});
export type OutputState = Readonly<z.infer<typeof outputStateSchema>>;

export const NO_OUTPUT_STATE: OutputState = { repairs: 0 };

/** Most times that a run asks again for an answer that fits. */
export const MAX_REPAIRS = 2;

/** The tool of the mode `tool`. */
export const RESULT_TOOL = 'final_result';
