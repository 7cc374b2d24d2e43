import { createKey, revokeKey } from '../../src/commands/change-keys.ts';
import { parseId } from '../../src/domain/ids.ts';
import { type Act, cli, NOWHERE } from './doors.ts';
import { ADMIN, made, making, object, QUIET } from './objects.ts';
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
    route: { without: 'keys are made at the command line' },
    client: { without: 'keys are made at the command line' },
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
    route: { without: 'keys are revoked at the command line' },
    client: { without: 'keys are revoked at the command line' },
    cli: cli((place) => ['keys', 'revoke', object(place)]),
  },
};
