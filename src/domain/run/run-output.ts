import { z } from 'zod';
import { formatId } from '../ids.ts';
import { fileFieldsSchema, jsonSchema, type Part } from '../transcript/message.ts';
import { MAX_INLINE_CONTENT_BYTES } from '../tunables.ts';

export const runOutputSchema = z.strictObject({
  /** The last whole answer of the run. */
  messageId: z.string(),
  text: z.string(),
  files: z.array(fileFieldsSchema),
  /** The result that its schema asked for. Absent: it asked for none, or no answer fitted it. */
  value: jsonSchema.optional(),
});

/** The answer of a run. */
export type RunOutput = Readonly<z.infer<typeof runOutputSchema>>;

/** @param parts of its last answer */
export function runOutputOf(messageId: string, parts: readonly Part[]): RunOutput {
  return {
    messageId: formatId('message', messageId),
    text: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''),
    files: parts.flatMap((part) => {
      if (part.type !== 'file') return [];
      const { type: _, queuedNo: _no, providerMetadata: _metadata, ...file } = part;
      return [file];
    }),
  };
}

/** Replaces a large content: its size as JSON, and the path at which it is read. */
export const contentRefSchema = z.strictObject({ sizeBytes: z.number().int().nonnegative(), href: z.string() });

/** In events. A large output is replaced by `contentRef`. */
export const toldOutputSchema = z
  .strictObject({
    ...runOutputSchema.partial({ text: true, files: true }).shape,
    contentRef: contentRefSchema.optional(),
  })
  .refine(({ text, contentRef }) => (text === undefined) !== (contentRef === undefined), 'text or contentRef');
export type ToldOutput = Readonly<z.infer<typeof toldOutputSchema>>;

/** @param runId as clients know it */
export function toldOutput(runId: string, output: RunOutput): ToldOutput {
  const sizeBytes = new TextEncoder().encode(JSON.stringify(output)).byteLength;
  if (sizeBytes <= MAX_INLINE_CONTENT_BYTES) return output;
  return { messageId: output.messageId, contentRef: { sizeBytes, href: `/v1/runs/${runId}` } };
}
