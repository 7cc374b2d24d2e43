import { formatId } from '../../src/domain/ids.ts';
import { type Cell, NO_CHAT_ACTS, NOWHERE, ok, SENDERS } from './doors.ts';
import type { Place, World } from './world.ts';

export const ADMIN = { ...NO_CHAT_ACTS, ...SENDERS };
export const NO_COMMAND = { without: 'baton has no such command' };
/** What no session hears of. */
export const QUIET = { isAnnounced: false };

export const object = ({ objectId = '' }: Place): string => objectId;

/** A cell that asks a route. */
export const request = (method: string, route: (place: Place) => string, body?: object): Cell => ({
  act: async (world, place) => void (await ok(world.request(method, route(place), body))),
});

/** A cell whose act makes an object, the newest of its table. */
export const making = (kind: keyof typeof TABLES, { act }: Cell): Cell => ({
  act: async (world, place) => {
    await act(world, place);
    const row = await world.deps.db
      .selectFrom(TABLES[kind])
      .select('id')
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow();
    return { ...NOWHERE, objectId: formatId(kind, row.id) };
  },
});
const TABLES = {
  webhook: 'webhooks',
  delivery: 'webhook_deliveries',
  schedule: 'schedules',
  key: 'api_keys',
} as const;

export const made =
  (
    kind: keyof typeof TABLES,
    make: (world: World) => Promise<Readonly<{ id: string }>>,
  ): ((world: World) => Promise<Place>) =>
  async (world) => ({ ...NOWHERE, objectId: formatId(kind, (await make(world)).id) });
