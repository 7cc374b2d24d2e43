import { z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { SESSION_STATUSES } from '../../domain/run/session.ts';
import type { SessionRow } from '../../store/sessions.ts';
import { overridesBody } from './agent-overrides.ts';
import { costBody, timeBody, usageBody, usageOf } from './responses.ts';

export const sessionBody = z
  .object({
    id: z.string(),
    agent: z.string(),
    agentVersion: z
      .string()
      .openapi({ description: 'Of the definition that the session has, its overrides included.' }),
    overrides: overridesBody,
    title: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    status: z.enum(SESSION_STATUSES),
    activeRunId: z.string().nullable(),
    compactingSince: timeBody.nullable().openapi({ description: 'Messages are accepted as always meanwhile.' }),
    compactionCount: z.int().openapi({ description: 'Compactions that were completed.' }),
    lastCompactionAt: timeBody.nullable(),
    usage: usageBody,
    costUsd: costBody,
    expiresAt: timeBody
      .nullable()
      .openapi({ description: 'From then on it is deleted, within about an hour, however young it is.' }),
    createdAt: timeBody,
    updatedAt: timeBody,
  })
  .openapi('Session');

export function toSessionBody(row: SessionRow): z.infer<typeof sessionBody> {
  return {
    id: formatId('session', row.id),
    agent: row.agent_name,
    agentVersion: row.agent_version,
    overrides: overridesBody.parse(row.overrides),
    title: row.title,
    metadata: row.metadata,
    status: row.status,
    activeRunId: row.active_run_id === null ? null : formatId('run', row.active_run_id),
    compactingSince: row.compacting_since?.toISOString() ?? null,
    compactionCount: row.compaction_count,
    lastCompactionAt: row.last_compaction_at?.toISOString() ?? null,
    usage: usageOf(row),
    costUsd: row.cost_usd,
    expiresAt: row.expires_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}
