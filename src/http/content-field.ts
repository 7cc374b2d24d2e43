import { z } from '@hono/zod-openapi';
import type { UserPart } from '../domain/message.ts';
import { MAX_MESSAGE_CHARS } from '../domain/tunables.ts';
import { textField } from './fields.ts';

const MAX_PARTS = 256;

/** Providers refuse a text without a visible character. */
const messageText = textField(MAX_MESSAGE_CHARS).refine((text) => text.trim() !== '', { error: 'must not be blank' });

/** What a user says: a text, or parts. */
export const contentField = z.union([
  messageText,
  z
    .array(z.discriminatedUnion('type', [z.strictObject({ type: z.literal('text'), text: messageText })]))
    .min(1)
    .max(MAX_PARTS)
    .refine((parts) => parts.reduce((sum, part) => sum + part.text.length, 0) <= MAX_MESSAGE_CHARS, {
      error: `at most ${MAX_MESSAGE_CHARS} characters altogether`,
    }),
]);

/** The parts of a content. */
export function toParts(content: z.infer<typeof contentField>): readonly UserPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}
