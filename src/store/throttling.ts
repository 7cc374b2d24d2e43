import { sql } from 'kysely';
import { z } from 'zod';
import { type JobPayload, jobPayloadSchema } from '../domain/run/job.ts';
import { SWEEP_LIMIT } from '../domain/tunables.ts';
import type { Db } from './database.ts';

/**
 * Lets those runs of a tenant go on that were held back and have waited longest, as far as its limit has room.
 * @param limit runs of the tenant that may be claimed at the same time; 0: any number
 * @returns the jobs to enqueue; one that gets lost is added by the reconciler
 */
export async function releaseThrottled(db: Db, tenantId: string, limit: number): Promise<JobPayload[]> {
  const { rows } = await sql<{
    jobs: unknown;
  }>`select baton_release_throttled(${tenantId}, ${limit}, ${SWEEP_LIMIT}) as jobs`.execute(db);
  return z.array(jobPayloadSchema).parse(rows[0]?.jobs);
}

/** The tenants that have runs which are held back. */
export async function findThrottledTenants(db: Db): Promise<string[]> {
  const { rows } = await sql<{ tenantId: string }>`
    select distinct tenant_id as "tenantId" from runs where throttled_at is not null`.execute(db);
  return rows.map(({ tenantId }) => tenantId);
}
