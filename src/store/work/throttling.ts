import { sql } from 'kysely';
import { z } from 'zod';
import { type JobPayload, jobPayloadSchema } from '../../domain/run/job.ts';
import { SWEEP_LIMIT } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';

/**
 * Releases the throttled runs of a tenant that have waited longest, as far as it has free slots.
 * @param limit slots of a tenant; 0: no limit
 * @returns the jobs to enqueue; the reconciler adds a lost one
 */
export async function releaseThrottled(db: Db, tenantId: string, limit: number): Promise<JobPayload[]> {
  const { rows } = await sql<{
    jobs: unknown;
  }>`select baton_release_throttled(${tenantId}, ${limit}, ${SWEEP_LIMIT}) as jobs`.execute(db);
  return z.array(jobPayloadSchema).parse(rows[0]?.jobs);
}

export async function findThrottledTenants(db: Db): Promise<string[]> {
  const { rows } = await sql<{ tenantId: string }>`
    select distinct tenant_id as "tenantId" from runs where throttled_at is not null`.execute(db);
  return rows.map(({ tenantId }) => tenantId);
}
