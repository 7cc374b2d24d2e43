import { z } from 'zod';
import { ownKeyField } from '../api/fields.ts';
import { scheduleFields } from '../api/schedules.ts';
import { webhookFields } from '../api/webhooks.ts';
import { FILES, MAX_DECLARER_CHARS, PROGRAM } from '../domain/declared.ts';
import { BatonError } from '../domain/errors.ts';
import { MAX_SCHEDULES_PER_TENANT } from '../domain/schedules/plan-fire.ts';
import { MAX_WEBHOOKS_PER_TENANT } from '../domain/webhooks/webhook.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';

const webhookSchema = webhookFields.extend({ key: ownKeyField });
const scheduleSchema = scheduleFields.extend({ key: ownKeyField });

/** A webhook that a program declares: the fields of the API, and its key. A secret that is left out stays as it is. */
export type DeclaredWebhook = Readonly<z.input<typeof webhookSchema>>;

/** A schedule that a program declares: the fields of the API, and its key. */
export type DeclaredSchedule = Readonly<z.input<typeof scheduleSchema>>;

/** Undefined: of these nothing is said, and nothing changes. */
export type GivenDeclarations = Readonly<{
  webhooks?: readonly DeclaredWebhook[] | undefined;
  schedules?: readonly DeclaredSchedule[] | undefined;
  /** Default: `program`. */
  declaredAs?: string | undefined;
}>;

/** A declaration with the words for its place. */
export type Declared<Fields> = Readonly<{ place: string; fields: Fields }>;

/** Checked declarations. Null: of these nothing is said. */
export type Declarations = Readonly<{
  declaredBy: string;
  webhooks: readonly Declared<z.output<typeof webhookSchema>>[] | null;
  schedules: readonly Declared<z.output<typeof scheduleSchema>>[] | null;
}>;

const nameSchema = z.string().regex(new RegExp(`^[\\w.-]{1,${MAX_DECLARER_CHARS}}$`));

/**
 * Checks what a program declares.
 * @throws BatonError `config_invalid` that names the place and the field
 */
export function readDeclarations({ webhooks, schedules, declaredAs = PROGRAM }: GivenDeclarations): Declarations {
  if (!nameSchema.safeParse(declaredAs).success || declaredAs === FILES) {
    const why = `expected 1 to ${MAX_DECLARER_CHARS} letters, digits and _ . -, and another name than ${FILES}`;
    throw new BatonError('config_invalid', `declaredAs: ${why}`);
  }
  return {
    declaredBy: declaredAs,
    webhooks: webhooks === undefined ? null : parseWebhooks(placed('webhooks', webhooks)),
    schedules: schedules === undefined ? null : parseSchedules(placed('schedules', schedules)),
  };
}

const placed = (list: string, items: readonly unknown[]): readonly Declared<unknown>[] =>
  items.map((fields, index) => ({ place: `${list}[${index}]`, fields }));

/** @throws BatonError `config_invalid` that names the place and the field */
export const parseWebhooks = (found: readonly Declared<unknown>[]) =>
  parseAll(webhookSchema, found, MAX_WEBHOOKS_PER_TENANT);

/** @throws BatonError `config_invalid` that names the place and the field */
export const parseSchedules = (found: readonly Declared<unknown>[]) =>
  parseAll(scheduleSchema, found, MAX_SCHEDULES_PER_TENANT);

function parseAll<Fields extends Readonly<{ key: string }>>(
  schema: z.ZodType<Fields>,
  found: readonly Declared<unknown>[],
  most: number,
): readonly Declared<Fields>[] {
  const places = new Map<string, string>();
  const [first] = found;
  if (found.length > most) throw new BatonError('config_invalid', `${first?.place}: at most ${most} can be declared`);
  return found.map(({ place, fields }) => {
    const parsed = schema.safeParse(fields);
    if (!parsed.success) {
      const problems = describeProblems(fileProblems(schema, parsed.error));
      throw new BatonError('config_invalid', `${place}: ${problems}`, { cause: parsed.error });
    }
    const { key } = parsed.data;
    const other = places.get(key);
    if (other !== undefined) throw new BatonError('config_invalid', `${place}: key: ${other} has the key ${key}, too`);
    places.set(key, place);
    return { place, fields: parsed.data };
  });
}
