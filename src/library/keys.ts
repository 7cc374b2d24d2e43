import { z } from 'zod';
import { serviceActor } from '../commands/audit.ts';
import { createKey, revokeKey } from '../commands/change-keys.ts';
import type { CommandPorts } from '../commands/ports.ts';
import { DEFAULT_TENANT_ID, SCOPES, type Scope } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { listKeysOfTenant } from '../store/around/api-keys.ts';

/** An API key. Its secret is shown when it is made, and never again. */
export type ProgramKey = Readonly<{
  id: string;
  name: string;
  /** The first characters of the secret. */
  shown: string;
  scopes: readonly Scope[];
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
}>;

export type NewKeyOptions = Readonly<{
  /** Who has it, in 1 to 200 characters. Two keys may have the same name. */
  name: string;
  /** Default: `default`. */
  tenantId?: string;
  /** Default: `read` and `write`. */
  scopes?: readonly Scope[];
  /** The key is refused from then on. Default: it lasts until it is revoked. */
  expiresAt?: Date;
}>;

/** Keys of the API and of the console's login, made by the program. */
export type BatonKeys = Readonly<{
  /**
   * Makes a key. `key` is its secret, which the database does not have.
   * @throws BatonError `invalid_request` that names the field
   */
  create: (options: NewKeyOptions) => Promise<Readonly<{ id: string; key: string }>>;
  /** The newest 1 000 keys of a tenant, also those that are revoked or have expired. */
  list: (options?: Readonly<{ tenantId?: string }>) => Promise<ProgramKey[]>;
  /**
   * Revokes a key, with its tokens and logins.
   * @param id `key_…`
   * @throws BatonError `invalid_request` for another id; `not_found`; `conflict` if it was revoked already
   */
  revoke: (id: string) => Promise<void>;
}>;

const MAX_LISTED = 1_000;

const newKeySchema = z.strictObject({
  name: z.string().min(1).max(200),
  tenantId: z
    .string()
    .regex(/^[\w.:-]{1,64}$/, '1 to 64 letters, digits and _ . : -')
    .default(DEFAULT_TENANT_ID),
  scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length).default(['read', 'write']),
  expiresAt: z.date().nullable().default(null),
});

export function createKeys({ db, newId }: Pick<CommandPorts, 'db' | 'newId'>): BatonKeys {
  return {
    async create(options) {
      const read = newKeySchema.safeParse(options);
      if (!read.success) {
        throw new BatonError('invalid_request', describeProblems(fileProblems(newKeySchema, read.error)));
      }
      const { tenantId, ...key } = read.data;
      const { id, secret } = await createKey({ db, newId }, { actor: serviceActor(tenantId), ...key });
      return { id: formatId('key', id), key: secret };
    },
    async list({ tenantId = DEFAULT_TENANT_ID } = {}) {
      const found = await listKeysOfTenant(db, { tenantId, limit: MAX_LISTED });
      return found.map(({ id, name, shown, scopes, createdAt, expiresAt, revokedAt }) => ({
        ...{ id: formatId('key', id), name, shown, scopes },
        ...{ createdAt, expiresAt, revokedAt },
      }));
    },
    async revoke(id) {
      const keyId = parseId('key', id);
      if (keyId === null) throw new BatonError('invalid_request', `${id} is not the id of a key: key_…`);
      await revokeKey({ db }, { actor: null, keyId });
    },
  };
}
