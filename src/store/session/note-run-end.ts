import { sql } from 'kysely';
import { formatId } from '../../domain/ids.ts';
import { telemetryProvider } from '../../domain/model/telemetry-provider.ts';
import type { RunStatus } from '../../domain/run/run.ts';
import type { Log } from '../../platform/log.ts';
import { currentTraceparent, recordSpan, usageAttributes } from '../../platform/tracing.ts';
import type { Db } from '../db/database.ts';

type EndedRun = Readonly<{
  runId: string;
  sessionId: string;
  /** Absent: it is read. */
  agent?: string;
  status: RunStatus;
  reason?: string;
}>;

/**
 * Logs the end of a run after its commit and, where traces are on, records the span of the whole run. Never rejects: if
 * Postgres is away, the log line lacks the agent, and the trace the span.
 */
export async function noteRunEnd({ db, log }: Readonly<{ db: Db; log: Log }>, ended: EndedRun): Promise<void> {
  const isRead = ended.agent === undefined || currentTraceparent() !== null;
  const run = isRead ? await readRunEnd(db, ended.runId).catch(() => undefined) : undefined;
  log('info', { event: 'run_ended', ...ended, ...(run !== undefined && { agent: run.agent }) });
  if (run !== undefined) recordRun(ended, run);
}

type RunEnd = NonNullable<Awaited<ReturnType<typeof readRunEnd>>>;

function readRunEnd(db: Db, runId: string) {
  return db
    .selectFrom('runs')
    .innerJoin('sessions', 'sessions.id', 'runs.session_id')
    .select(['agent_name as agent', 'sessions.tenant_id as tenant', 'runs.traceparent', 'runs.step_count'])
    .select(sql<string>`agent_snapshot ->> 'model'`.as('model'))
    .select(sql<string | null>`agent_snapshot ->> 'description'`.as('description'))
    .select('sessions.agent_version as version')
    .select(['runs.created_at', 'runs.finished_at', 'runs.cost_usd'])
    .select(['runs.input_tokens', 'runs.output_tokens', 'runs.cache_read_tokens', 'runs.cache_write_tokens'])
    .select('runs.reasoning_tokens')
    .where('runs.id', '=', runId)
    .executeTakeFirst();
}

/**
 * The span of an agent's invocation, which begins and ends in this system
 * (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-agent-spans.md). It is below
 * the request that began the run, like the jobs: they may end in other processes before there is any span of the run.
 */
function recordRun({ runId, sessionId, status, reason }: EndedRun, run: RunEnd): void {
  if (run.traceparent === null || run.finished_at === null) return;
  const [provider = '', ...model] = run.model.split('/');
  recordSpan(`invoke_agent ${run.agent}`, {
    parent: run.traceparent,
    startTime: run.created_at,
    endTime: run.finished_at,
    errorType: status === 'failed' ? (reason ?? '_OTHER') : null,
    attributes: {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': telemetryProvider(provider, null),
      // An agent is known by its name.
      'gen_ai.agent.id': run.agent,
      'gen_ai.agent.name': run.agent,
      'gen_ai.agent.version': run.version,
      ...(run.description !== null && { 'gen_ai.agent.description': run.description }),
      'gen_ai.conversation.id': formatId('session', sessionId),
      'gen_ai.request.model': model.join('/'),
      ...usageAttributes({
        inputTokens: Number(run.input_tokens),
        outputTokens: Number(run.output_tokens),
        reasoningTokens: Number(run.reasoning_tokens),
        cacheReadTokens: Number(run.cache_read_tokens),
        cacheWriteTokens: Number(run.cache_write_tokens),
      }),
      'baton.session_id': formatId('session', sessionId),
      'baton.run_id': formatId('run', runId),
      'baton.tenant': run.tenant,
      'baton.status': status,
      'baton.steps': run.step_count,
      ...(reason !== undefined && { 'baton.reason': reason }),
      ...(run.cost_usd !== null && { 'baton.cost_usd': Number(run.cost_usd) }),
    },
  });
}
