import { z } from '@hono/zod-openapi';

/** A place in the event log of a session. `epoch`: of the history that the number belongs to; null: unknown. */
export type EventPlace = Readonly<{ seq: number; epoch: string | null }>;

/** The id of an event: its number, and the epoch if it is known. */
export const toEventId = (seq: number, epoch: string | null): string => (epoch === null ? `${seq}` : `${seq}-${epoch}`);

const PATTERN = /^(\d{1,15})(?:-([0-9a-f]{1,16}))?$/;

/** The id of an event, or its number alone. */
export const eventIdField = z
  .string()
  .transform((text, ctx): EventPlace => {
    const [, seq, epoch = null] = PATTERN.exec(text) ?? [];
    if (seq !== undefined) return { seq: Number(seq), epoch };
    ctx.addIssue({ code: 'custom', message: 'must be the id of an event, such as 85-3fa9c01d, or its number' });
    return z.NEVER;
  })
  .openapi({
    type: 'string',
    pattern: '^\\d{1,15}(-[0-9a-f]{1,16})?$',
    example: '85-3fa9c01d',
    description: 'Event after which to begin: its id, or its number alone.',
  });
