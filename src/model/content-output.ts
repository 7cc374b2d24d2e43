import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { itemSchema, toItem } from '../domain/transcript/content-item.ts';
import type { ToolOutput } from '../domain/transcript/message.ts';
import { toJsonOutput } from './response-parts.ts';

const contentSchema = z.strictObject({ type: z.literal('content'), value: z.array(itemSchema).min(1) });

/** Null: not content in the AI SDK's form. */
export function toContentOutput(value: unknown): ToolOutput | null {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'content') return null;
  const parsed = contentSchema.safeParse(value);
  return parsed.success ? { type: 'content', value: parsed.data.value.map(toItem) } : null;
}

const outputSchema = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['text', 'error-text']), value: z.string() }),
  z.object({ type: z.enum(['json', 'error-json']), value: z.unknown() }),
]);

/** The result of a tool's `toModelOutput`. @throws BatonError `internal` if it is none of the SDK's outputs */
export function toOutput(value: unknown): ToolOutput {
  const content = toContentOutput(value);
  if (content !== null) return content;
  const parsed = outputSchema.safeParse(value);
  if (!parsed.success) throw new BatonError('internal', 'The tool gave an output that cannot be shown.');
  const output = parsed.data;
  switch (output.type) {
    case 'text':
    case 'error-text':
      return { type: output.type, value: output.value };
    case 'json':
      return toJsonOutput(output.value);
    case 'error-json':
      return { type: 'error-text', value: JSON.stringify(output.value) };
  }
}
