import { z } from 'zod';
import { jsonSchema } from './message.ts';

/** Most forms and pages in one question. */
export const MAX_QUESTION_ITEMS = 8;
/** Longest message of an item. */
export const MAX_QUESTION_CHARS = 2_000;
/** Most bytes of a whole question, with what its tool goes on with. */
export const MAX_QUESTION_BYTES = 65_536;

/**
 * `schema`: the form that a person fills in, as a JSON Schema of an object. `url`: a page that the person opens, in place
 * of a form. With neither a yes is enough.
 */
export const questionItemSchema = z.strictObject({
  key: z.string(),
  message: z.string(),
  schema: z.record(z.string(), jsonSchema).optional(),
  url: z.string().optional(),
});
export type QuestionItem = z.infer<typeof questionItemSchema>;

/** What a tool asks a person for in the middle of a call. `state`: what it goes on with after the answer. */
export const callQuestionSchema = z.strictObject({
  items: z.array(questionItemSchema).min(1).max(MAX_QUESTION_ITEMS),
  state: jsonSchema,
});
export type CallQuestion = z.infer<typeof callQuestionSchema>;
