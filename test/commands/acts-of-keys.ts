import { createKey, revokeKey } from '../../src/commands/change-keys.ts';
import { parseId } from '../../src/domain/ids.ts';
import { createApiKey } from '../../src/store/around/api-keys.ts';
import { inTransaction } from '../../src/store/db/database.ts';
import { type Act, type Cell, cli, client, NOWHERE, ok } from './doors.ts';
import { ADMIN, made, making, object, QUIET } from './objects.ts';
import { ACTOR, DOOR_KEY, type Place, type World } from './world.ts';

const KEY = { name: 'ci', scopes: ['read', 'write'], expiresAt: null } as const;
const newKey = ({ deps }: World) => createKey(deps, { actor: ACTOR, ...KEY });

/** A cell that asks a route with a key of its own: where there are keys, nobody comes in without one. */
const request = (route: (place: Place) => string, body?: object): Cell => ({
  async act(world, place) {
    const own = { ...KEY, scopes: ['read', 'write', 'admin'], id: DOOR_KEY, tenantId: ACTOR.tenantId } as const;
    const secret = await inTransaction(world.deps.db, async (tx) => {
      await tx.deleteFrom('api_keys').where('id', '=', DOOR_KEY).execute();
      return createApiKey(tx, own);
    });
    await ok(world.request('POST', route(place), body, { authorization: `Bearer ${secret}` }));
  },
});

export const keyOfApi: Act = {
  name: 'makes an API key',
  file: 'change-keys',
  leaves: {
    ...QUIET,
    audit: ['key:create /v1/keys/key'],
    object: { name: 'ci', scopes: ['read', 'write'], revoked_at: null },
  },
  prepare: async () => NOWHERE,
  command: async (world) => made('key', newKey)(world),
  doors: {
    ...ADMIN,
    route: making(
      'key',
      request(() => '/v1/keys', { name: 'ci' }),
    ),
    client: making(
      'key',
      client((baton) => baton.keys.create({ name: 'ci' })),
    ),
    cli: making(
      'key',
      cli(() => ['keys', 'create', '--name', 'ci']),
    ),
  },
};

export const revokedKey: Act = {
  name: 'revokes an API key',
  file: 'change-keys',
  leaves: {
    ...{ ...QUIET, audit: ['key:revoke /v1/keys/key'] },
    object: { name: 'ci', scopes: ['read', 'write'], revoked_at: 'a time' },
  },
  prepare: made('key', newKey),
  command: async ({ deps }, { objectId = '' }) =>
    revokeKey(deps, { actor: ACTOR, keyId: parseId('key', objectId) ?? '' }).then(() => undefined),
  doors: {
    ...ADMIN,
    route: request((place) => `/v1/keys/${object(place)}/revoke`),
    client: client((baton, place) => baton.keys.revoke(object(place))),
    cli: cli((place) => ['keys', 'revoke', object(place)]),
  },
};
