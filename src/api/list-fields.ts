import { z } from '@hono/zod-openapi';
import { ID_PREFIXES, type IdKind, parseId } from '../domain/ids.ts';

const MAX_IDS = 50;

/** Ids with commas between them, parsed to UUIDs: for lists that read some of their rows again. */
export function idsField(kind: IdKind) {
  return z
    .string()
    .max(MAX_IDS * 40)
    .transform((text, ctx): string[] => {
      const ids = text.split(',').map((id) => parseId(kind, id));
      if (ids.length > MAX_IDS) ctx.addIssue({ code: 'custom', message: `at most ${MAX_IDS} ids` });
      const valid = ids.filter((id) => id !== null);
      if (valid.length < ids.length) {
        ctx.addIssue({ code: 'custom', message: `ids of ${kind}s (${ID_PREFIXES[kind]}_…) with commas between them` });
      }
      return valid;
    })
    .optional()
    .openapi({
      type: 'string',
      description: `Ids of the only entries to return, in this order: at most ${MAX_IDS}, separated by commas.`,
    });
}

/** A query parameter that is either absent or `true`. */
export const trueField = z.literal('true', { error: 'must be true, or be left out' }).optional();

const MAX_USD = 1_000_000_000;

/** An amount of US dollars. */
export const usdField = z
  .string()
  .max(32)
  .transform((text, ctx): number => {
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (value >= 0 && value <= MAX_USD) return value;
    ctx.addIssue({ code: 'custom', message: `must be an amount of US dollars as 0.25, at most ${MAX_USD}` });
    return z.NEVER;
  })
  .optional();
