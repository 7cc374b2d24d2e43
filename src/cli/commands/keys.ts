import { parseArgs } from 'node:util';
import { z } from 'zod';
import { serviceActor } from '../../commands/audit.ts';
import { createKey, revokeKey } from '../../commands/change-keys.ts';
import { DEFAULT_TENANT_ID, SCOPES } from '../../domain/access.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { batonCommand } from '../../platform/baton-command.ts';
import { loadConfig } from '../../platform/config.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { newId } from '../../platform/new-id.ts';
import { type ApiKey, listApiKeys } from '../../store/around/api-keys.ts';
import type { Db } from '../../store/db/database.ts';
import { openCommandDatabase } from '../command-database.ts';
import { UsageError } from '../exit-codes.ts';
import { oneLine } from '../terminal/words.ts';

export const usage = `baton keys create --name NAME [--tenant TENANT] [--scopes read,write] [--expires 30d]   (npm run keys -- …)
baton keys list
baton keys revoke ID

Scopes: ${SCOPES.join(', ')}; read,write by default. Tenant: "${DEFAULT_TENANT_ID}" by default.
A key that expires (after minutes, hours or days: 90m, 12h, 30d) is refused from then on; without --expires it lasts until it is revoked.
As soon as there is a key, every request needs one.`;

const UNITS_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Lifetime of a key, in milliseconds. */
const lifetime = z
  .string()
  .regex(/^[1-9]\d{0,4}[mhd]$/, { error: 'a number of minutes, hours or days: 90m, 12h, 30d' })
  .transform((text) => Number(text.slice(0, -1)) * (UNITS_MS[text.slice(-1)] ?? 0));

const commandSchema = z.discriminatedUnion('command', [
  z.strictObject({
    command: z.literal('create'),
    name: z.string({ error: 'a key needs a name: --name NAME' }).min(1).max(200),
    tenant: z
      .string()
      .regex(/^[\w.:-]{1,64}$/, { error: '1 to 64 letters, digits and _ . : -' })
      .default(DEFAULT_TENANT_ID),
    scopes: z
      .string()
      .default('read,write')
      .transform((list) => [...new Set(list.split(','))])
      .pipe(z.array(z.enum(SCOPES)).min(1)),
    expires: lifetime.optional(),
  }),
  z.strictObject({ command: z.literal('list') }),
  z.strictObject({ command: z.literal('revoke'), id: z.string() }),
]);
type Command = z.infer<typeof commandSchema>;

function readCommand(args: readonly string[]): Command {
  const option = { type: 'string' } as const;
  const options = { name: option, tenant: option, scopes: option, expires: option };
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const [command, id, ...rest] = positionals;
  if (rest.length > 0) throw new UsageError(`unknown argument ${rest[0]}`);
  const parsed = commandSchema.safeParse({ command, ...(id !== undefined && { id }), ...values });
  if (parsed.success) return parsed.data;
  throw new UsageError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
}

async function perform(db: Db, command: Command): Promise<string> {
  switch (command.command) {
    case 'create': {
      const { name, tenant: tenantId, scopes, expires } = command;
      const expiresAt = expires === undefined ? null : new Date(Date.now() + expires);
      const { id, secret } = await createKey({ db, newId }, { actor: serviceActor(tenantId), name, scopes, expiresAt });
      const until = expiresAt === null ? '' : `, until ${minute(expiresAt)}`;
      return `${formatId('key', id)} for tenant ${tenantId}, ${scopes.join(', ')}${until}. The key is shown this once:\n${secret}`;
    }
    case 'list': {
      const keys = await listApiKeys(db);
      return keys.length === 0 ? 'There are no keys.' : keys.map(describe).join('\n');
    }
    case 'revoke': {
      const keyId = parseId('key', command.id);
      if (keyId === null)
        throw new UsageError(`${command.id} is not the id of a key: see "${batonCommand()} keys list"`);
      await revokeKey({ db }, { actor: null, keyId });
      return `${command.id} is revoked.`;
    }
  }
}

function describe(key: ApiKey): string {
  const { id, tenantId, name, shown: prefix, scopes } = key;
  return [formatId('key', id), `${prefix}…`, tenantId, scopes.join(','), stateOf(key), oneLine(name, 200)].join('  ');
}

function stateOf({ lastUsedAt, expiresAt, revokedAt }: ApiKey): string {
  if (revokedAt !== null) return `revoked ${minute(revokedAt)}`;
  const used = lastUsedAt === null ? 'never used' : `used ${minute(lastUsedAt)}`;
  if (expiresAt === null) return used;
  return expiresAt.getTime() > Date.now() ? `${used}, expires ${minute(expiresAt)}` : `expired ${minute(expiresAt)}`;
}

const minute = (time: Date): string => `${time.toISOString().slice(0, 16)}Z`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const command = readCommand(args);
  await using stack = new AsyncDisposableStack();
  const { db } = await openCommandDatabase(loadConfig(environment), stack);
  console.log(await perform(db, command));
  return 0;
}
