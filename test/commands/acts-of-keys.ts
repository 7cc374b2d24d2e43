import { createKey, revokeKey } from '../../src/commands/change-keys.ts';
import { parseId } from '../../src/domain/ids.ts';
import { type Act, cli, client, NOWHERE } from './doors.ts';
import { ADMIN, made, making, object, QUIET, request } from './objects.ts';
import { ACTOR, type World } from './world.ts';

const KEY = { name: 'ci', scopes: ['read', 'write'], expiresAt: null } as const;
const newKey = ({ deps }: World) => createKey(deps, { actor: ACTOR, ...KEY });

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
      request('POST', () => '/v1/keys', { name: 'ci' }),
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
    route: request('POST', (place) => `/v1/keys/${object(place)}/revoke`),
    client: client((baton, place) => baton.keys.revoke(object(place))),
    cli: cli((place) => ['keys', 'revoke', object(place)]),
  },
};
