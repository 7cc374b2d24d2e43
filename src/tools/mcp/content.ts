import {
  AudioContentSchema,
  type ContentBlock,
  EmbeddedResourceSchema,
  ImageContentSchema,
  ResourceLinkSchema,
  TextContentSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

export type Content = ContentBlock;

const KINDS: ReadonlyMap<string, z.ZodType<Content>> = new Map<string, z.ZodType<Content>>([
  ['text', TextContentSchema],
  ['image', ImageContentSchema],
  ['audio', AudioContentSchema],
  ['resource_link', ResourceLinkSchema],
  ['resource', EmbeddedResourceSchema],
]);

/** Descriptive fields that any content block may have. */
const anyPieceSchema = z.looseObject({
  type: z.string().catch(''),
  mimeType: z.string().optional().catch(undefined),
  resource: z
    .looseObject({ mimeType: z.string().optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

const MAX_NAME_CHARS = 100;

/** Parses a content block. An invalid one becomes a text with its name and the problem. Pure. */
export function toContent(piece: unknown): Content {
  const known = anyPieceSchema.safeParse(piece);
  if (!known.success) return malformed('content', 'is not an object');
  const { type, mimeType, resource } = known.data;
  const name = (mimeType || resource?.mimeType || type || 'content').slice(0, MAX_NAME_CHARS);
  const schema = KINDS.get(type);
  if (schema === undefined) return malformed(name, 'type: is not a kind of content');
  const { data, error } = schema.safeParse(piece);
  if (data === undefined) return malformed(name, firstIssue(error));
  if ('data' in data && data.data === '') return malformed(name, 'data: is empty');
  if (data.type === 'resource' && 'blob' in data.resource && data.resource.blob === '') {
    return malformed(name, 'resource.blob: is empty');
  }
  return data;
}

const malformed = (name: string, why: string): Content => ({
  type: 'text',
  text: `[malformed ${name}, not shown: ${why}]`,
});

function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return issue === undefined ? 'is not valid' : `${issue.path.join('.')}: ${issue.message}`;
}
