import { sql } from 'kysely';
import type { Db } from './database.ts';

/** Where requests go with one key: what one session is told there holds for all. */
export type ProviderEndpoint = Readonly<{ provider: string; endpoint: string }>;

/** Asks nobody at the endpoint for so long. A longer pause that is on already stays. */
export async function pauseProvider(db: Db, { provider, endpoint }: ProviderEndpoint, pauseMs: number): Promise<void> {
  await sql`
    insert into provider_pauses (provider, endpoint, until_at)
    values (${provider}, ${endpoint}, clock_timestamp() + make_interval(secs => ${pauseMs / 1_000}))
    on conflict (provider, endpoint) do update
      set until_at = greatest(provider_pauses.until_at, excluded.until_at)`.execute(db);
}

/** Milliseconds until the endpoint may be asked again; 0: at once. */
export async function pauseLeftMs(db: Db, { provider, endpoint }: ProviderEndpoint): Promise<number> {
  const { rows } = await sql<{ leftMs: number }>`
    select ceil(extract(epoch from until_at - clock_timestamp()) * 1000)::float8 as "leftMs" from provider_pauses
    where provider = ${provider} and endpoint = ${endpoint} and until_at > clock_timestamp()`.execute(db);
  return rows[0]?.leftMs ?? 0;
}
