import { z } from '@hono/zod-openapi';
import { toStorable } from '../domain/storable-json.ts';
import { toContentItem } from '../domain/transcript/content-item.ts';
import type { Json, OutputItem } from '../domain/transcript/message.ts';
import type { OutputAnswer } from '../domain/transcript/required-action.ts';
import { MAX_MESSAGE_FILES, MAX_MESSAGE_PARTS } from '../domain/tunables.ts';
import { filePart, toFilePart } from './content-field.ts';
import { jsonField } from './fields.ts';

/**
 * The output that a client gives for a call: a string or any JSON value. `{ type: 'content', value: […] }` holds texts
 * and files, in the AI SDK's form as tools of the service return them, or files as messages name them.
 */
export const outputField = jsonField.transform((value, ctx): OutputAnswer => {
  const output = toStorable(value);
  const items = contentOf(output);
  if (items === null) return { kind: 'output', output: output as Json };
  const refuse = (path: readonly PropertyKey[], message: string): void =>
    ctx.addIssue({ code: 'custom', path: ['value', ...path], message });
  if (items.length === 0) refuse([], 'needs a text or a file');
  if (items.length > MAX_MESSAGE_PARTS) {
    refuse([], `at most ${MAX_MESSAGE_PARTS} texts and files`);
    return z.NEVER;
  }
  const content = items.flatMap((item, index): OutputItem[] => {
    const contentItem = toContentItem(item);
    if (contentItem !== null) return [contentItem];
    const named = filePart.safeParse(item);
    if (named.success) return [toFilePart(named.data)];
    for (const { path, message } of named.error.issues) refuse([index, ...path], message);
    return [];
  });
  if (content.filter(({ type }) => type === 'file').length > MAX_MESSAGE_FILES) {
    refuse([], `at most ${MAX_MESSAGE_FILES} files`);
  }
  return { kind: 'content', content };
});

function contentOf(output: unknown): readonly unknown[] | null {
  if (typeof output !== 'object' || output === null || !('type' in output) || !('value' in output)) return null;
  return output.type === 'content' && Array.isArray(output.value) ? output.value : null;
}
