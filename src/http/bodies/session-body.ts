import type { z } from '@hono/zod-openapi';
import { overridesBody } from '../../api/agent-overrides.ts';
import type { sessionBody } from '../../api/session-body.ts';
import { formatId } from '../../domain/ids.ts';
import { nameOfSession } from '../../domain/run/session-name.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import type { SessionRow } from '../../store/session/sessions.ts';

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
    name: nameOf(row),
    title: row.title,
    metadata: row.metadata,
    status: row.status,
    activeRunId: row.active_run_id === null ? null : formatId('run', row.active_run_id),
    compactingSince: row.compacting_since?.toISOString() ?? null,
    compactionCount: row.compaction_count,
    lastCompactionAt: row.last_compaction_at?.toISOString() ?? null,
    usage: usageOf(row),
    costUsd: row.cost_usd,
    steps: row.step_count,
    expiresAt: row.expires_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

const nameOf = ({ title, first_words: words, external_key: key, agent_name: agent }: SessionRow): string =>
  nameOfSession({ title, firstWords: words, key, agent });

const idOrNull = (id: string | null): string | null => (id === null ? null : formatId('session', id));

function forkedFromOf({ forked_from_session_id: session, forked_from_message_id: message }: SessionRow) {
  if (session === null) return null;
  return { sessionId: formatId('session', session), messageId: message === null ? null : formatId('message', message) };
}
