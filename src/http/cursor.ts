import { z } from '@hono/zod-openapi';

const positionSchema = z.strictObject({
  list: z.enum(['sessions', 'runs']),
  createdAt: z.iso.datetime(),
  id: z.uuid(),
});

type List = z.infer<typeof positionSchema>['list'];
type Position = Readonly<{ createdAt: string; id: string }>;

/** The cursor of the page after these rows, or null when the list ends with them. `rows` holds one more than a page. */
export function nextCursor(
  list: List,
  rows: readonly Readonly<{ created_at: Date; id: string }>[],
  limit: number,
): string | null {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  if (last === undefined) return null;
  const position = { list, createdAt: last.created_at.toISOString(), id: last.id };
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

/** A query parameter with the cursor of the given list: opaque to callers, checked like any other input. */
export function cursorField(list: List) {
  return z
    .string()
    .max(512)
    .transform((text, ctx): Position => {
      const position = decode(text);
      if (position?.list === list) return { createdAt: position.createdAt, id: position.id };
      ctx.addIssue({ code: 'custom', message: `not a cursor of ${list}: pass nextCursor of a page as it is` });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: 'string', description: '`nextCursor` of the page before, as it is.' });
}

function decode(text: string): z.infer<typeof positionSchema> | null {
  if (!/^[\w-]+$/.test(text)) return null;
  try {
    return positionSchema.parse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
  } catch {
    return null;
  }
}
