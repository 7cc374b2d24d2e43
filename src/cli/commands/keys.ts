import { parseArgs } from 'node:util';
import { z } from 'zod';
import { DEFAULT_TENANT_ID, SCOPES } from '../../domain/access.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { loadConfig } from '../../runtime/config.ts';
import { newId } from '../../runtime/new-id.ts';
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '../../store/api-keys.ts';
import { appendAudit } from '../../store/audit.ts';
import type { Db } from '../../store/database.ts';
import { openCommandDatabase } from '../command-database.ts';
import { UsageError } from '../exit-codes.ts';

export const usage = `baton keys create --name NAME [--tenant TENANT] [--scopes read,write]   (npm run keys -- …)
baton keys list
baton keys revoke ID

Scopes: ${SCOPES.join(', ')}; read,write by default. Tenant: "${DEFAULT_TENANT_ID}" by default.
As soon as there is a key, every request needs one.`;

const commandSchema = z.discriminatedUnion('command', [
  z.strictObject({
    command: z.literal('create'),
    name: z.string().min(1).max(200),
    tenant: z
      .string()
      .regex(/^[\w.:-]{1,64}$/, { error: '1 to 64 letters, digits and _ . : -' })
      .default(DEFAULT_TENANT_ID),
    scopes: z
      .string()
      .default('read,write')
      .transform((list) => [...new Set(list.split(','))])
      .pipe(z.array(z.enum(SCOPES)).min(1)),
  }),
  z.strictObject({ command: z.literal('list') }),
  z.strictObject({ command: z.literal('revoke'), id: z.string() }),
]);
type Command = z.infer<typeof commandSchema>;

function readCommand(args: readonly string[]): Command {
  const option = { type: 'string' } as const;
  const options = { name: option, tenant: option, scopes: option };
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
      const { name, tenant: tenantId, scopes } = command;
      const id = newId();
      const secret = await db.transaction().execute(async (tx) => {
        await appendAudit(tx, { tenantId, keyId: null, action: 'key:create', target: formatId('key', id) });
        return createApiKey(tx, { id, tenantId, name, scopes });
      });
      return `${formatId('key', id)} for tenant ${tenantId}, ${scopes.join(', ')}. The key is shown this once:\n${secret}`;
    }
    case 'list': {
      const keys = await listApiKeys(db);
      return keys.length === 0 ? 'There are no keys.' : keys.map(describe).join('\n');
    }
    case 'revoke': {
      const id = parseId('key', command.id);
      if (id === null) throw new UsageError(`${command.id} is not the id of a key: see "baton keys list"`);
      await db.transaction().execute(async (tx) => {
        const tenantId = await revokeApiKey(tx, id);
        await appendAudit(tx, { tenantId, keyId: null, action: 'key:revoke', target: command.id });
      });
      return `${command.id} is revoked.`;
    }
  }
}

function describe({ id, tenantId, name, shown, scopes, lastUsedAt, revokedAt }: ApiKey): string {
  const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt.toISOString().slice(0, 16)}Z`;
  const state = revokedAt === null ? used : `revoked ${revokedAt.toISOString().slice(0, 16)}Z`;
  return [formatId('key', id), `${shown}…`, tenantId, scopes.join(','), state, name].join('  ');
}

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const command = readCommand(args);
  await using stack = new AsyncDisposableStack();
  const { db } = await openCommandDatabase(loadConfig(environment), stack);
  console.log(await perform(db, command));
  return 0;
}
