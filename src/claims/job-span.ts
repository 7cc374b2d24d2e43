import { SpanKind } from '@opentelemetry/api';
import { formatId } from '../domain/ids.ts';
import { type JobPayload, jobIdOf, QUEUE_NAMES } from '../domain/run/job.ts';
import { currentTraceparent, inSpan, linkTo } from '../platform/tracing.ts';
import { type ClaimedRun, noteAttempt } from '../store/work/claims.ts';
import type { JobDeps } from './job-deps.ts';

/** Works on a job in a span below the request that started the run. A retry or recovery links to the last attempt. */
export async function inJobSpan<T>(
  { db }: Pick<JobDeps, 'db'>,
  { job, claimId }: Readonly<{ job: JobPayload; claimId: string }>,
  { run, session, epoch, interruptedMessageId }: ClaimedRun,
  work: () => Promise<T>,
): Promise<T> {
  const destination = QUEUE_NAMES[job.kind];
  const isRecovery = run.resumeCount > 0 || interruptedMessageId !== null;
  const relation = run.attempt > 1 ? 'retry' : isRecovery ? 'recovery' : null;
  const options = {
    kind: SpanKind.CONSUMER,
    parent: run.traceparent,
    links: relation === null ? [] : linkTo(run.attemptTraceparent, relation),
    shared: {
      'gen_ai.agent.name': session.agentName,
      'gen_ai.conversation.id': formatId('session', session.id),
      'baton.tenant': session.tenantId,
    },
    baggage: { 'baton.session_id': formatId('session', session.id), 'baton.run_id': formatId('run', run.id) },
    attributes: {
      'messaging.system': 'bullmq',
      'messaging.operation.type': 'process',
      'messaging.destination.name': destination,
      'messaging.message.id': jobIdOf(job),
      'baton.step': job.no,
      'baton.attempt': run.attempt,
      'baton.resume_count': run.resumeCount,
      'baton.waited_ms': run.waitedMs,
    },
  };
  return inSpan(`process ${destination}`, options, async (span) => {
    const traceparent = span.isRecording() ? currentTraceparent() : null;
    // The work neither waits for this write nor fails with it.
    const noted =
      traceparent === null
        ? undefined
        : noteAttempt(db, { runId: run.id, epoch, claimId }, traceparent).catch(() => undefined);
    try {
      return await work();
    } finally {
      await noted;
    }
  });
}
