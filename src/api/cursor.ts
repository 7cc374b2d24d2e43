import { z } from '@hono/zod-openapi';

const newestFirst = { createdAt: z.iso.datetime(), id: z.uuid() };

/** The lists that have cursors, each with the fields that say where a page ends. */
const POSITIONS = {
  sessions: z.strictObject({ list: z.literal('sessions'), ...newestFirst }),
  runs: z.strictObject({ list: z.literal('runs'), ...newestFirst }),
  keys: z.strictObject({ list: z.literal('keys'), ...newestFirst }),
  deliveries: z.strictObject({ list: z.literal('deliveries'), ...newestFirst }),
  inbox: z.strictObject({ list: z.literal('inbox'), messageId: z.uuid(), index: z.int().nonnegative() }),
  queue: z.strictObject({ list: z.literal('queue'), seq: z.int().nonnegative() }),
} as const;

type List = keyof typeof POSITIONS;

type Position<L extends List> = z.infer<(typeof POSITIONS)[L]>;

/** The cursor of the page after these rows; null at the end of the list. `rows` holds one more than a page. */
export function nextCursor(
  list: 'sessions' | 'runs' | 'keys' | 'deliveries',
  rows: readonly Readonly<{ created_at: Date; id: string }>[],
  limit: number,
): string | null {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return last === undefined ? null : toCursor({ list, createdAt: last.created_at.toISOString(), id: last.id });
}

export function toCursor(position: Position<List>): string {
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

/** A query parameter with the cursor of the given list: opaque to callers, validated like any other input. */
export function cursorField<L extends List>(list: L) {
  return z
    .string()
    .max(512)
    .transform((text, ctx): Position<L> => {
      const position = POSITIONS[list].safeParse(decode(text));
      if (position.success) return position.data as Position<L>;
      ctx.addIssue({ code: 'custom', message: `not a cursor of ${list}: pass nextCursor of a page as it is` });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: 'string', description: '`nextCursor` of the previous page, unchanged.' });
}

function decode(text: string): unknown {
  if (!/^[\w-]+$/.test(text)) return null;
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    return null;
  }
}
