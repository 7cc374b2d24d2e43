import { z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { SESSION_STATUSES } from '../../domain/run/session.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import type { SessionRow } from '../../store/session/sessions.ts';
import { overridesBody } from './agent-overrides.ts';
import { costBody, timeBody, usageBody } from './responses.ts';

export const sessionBody = z
  .object({
    id: z.string(),
    key: z.string().nullable().openapi({
      description:
        'In a path, `key:` and the key stand for the id. Chats have the keys `ui:` and `openai:` with their own names.',
    }),
    parentSessionId: z.string().nullable().openapi({ description: 'The session of which a call began this one.' }),
    rootSessionId: z.string().nullable().openapi({ description: 'The session at the top of its tree; null: itself.' }),
    depth: z.int().openapi({ description: 'Levels below that session.' }),
    forkedFrom: z.object({ sessionId: z.string(), messageId: z.string().nullable() }).nullable().openapi({
      description:
        'Of a fork: the session that it was made of, and the last message that was copied, by its id there. The other session may be deleted.',
    }),
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
    key: row.external_key,
    parentSessionId: idOrNull(row.parent_session_id),
    rootSessionId: idOrNull(row.root_session_id),
    depth: row.depth,
    forkedFrom: forkedFromOf(row),
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

const idOrNull = (id: string | null): string | null => (id === null ? null : formatId('session', id));

function forkedFromOf({ forked_from_session_id: session, forked_from_message_id: message }: SessionRow) {
  if (session === null) return null;
  return { sessionId: formatId('session', session), messageId: message === null ? null : formatId('message', message) };
}
