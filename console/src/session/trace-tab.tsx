import type { StepRow } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { ExternalLink } from 'lucide-react';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { useCaller } from '../layout/caller.ts';
import { Id } from '../ui/copy.tsx';
import { useOpened } from './session-context.tsx';
import { Figure, Figures } from './usage-tab.tsx';

/** The ids by which a person finds the step in traces and logs. */
export function TraceTab({ row, runId }: Readonly<{ row: StepRow; runId: string }>): ReactNode {
  const { sessionId } = useOpened();
  return (
    <div className="flex flex-col gap-3">
      <Figures words="Spans and log lines of this step have these ids">
        <Figure words="baton.session_id" value={<Id id={sessionId} chars={40} />} />
        <Figure words="baton.run_id" value={<Id id={runId} chars={40} />} />
        <Figure words="baton.step" value={row.step} />
        <Figure words="message" value={<Id id={row.messageId} chars={40} />} />
      </Figures>
      <TraceLink runId={runId} />
      <p className="text-dim">
        Traces are sent where OTEL_EXPORTER_OTLP_ENDPOINT of the service points. Search there for the id of the run: all
        of its steps are in one trace.
      </p>
    </div>
  );
}

/** Leads to the run's trace, where the service knows the address of such pages. */
function TraceLink({ runId }: Readonly<{ runId: string }>): ReactNode {
  const address = useCaller()?.traceUrl ?? null;
  const { data: run } = useQuery({
    queryKey: ['run', runId],
    queryFn: ({ signal }) => client.runs.get(runId, { signal }),
    enabled: address !== null,
    staleTime: 60_000,
  });
  if (address === null) {
    return (
      <p className="text-dim">
        BATON_TRACE_URL of the service, such as{' '}
        <code className="font-mono text-sm">https://host/trace/{'{traceId}'}</code>, puts a link to the trace here.
      </p>
    );
  }
  if (run === undefined) return null;
  if (run.traceId === null) return <p className="text-dim">The run has no trace: spans were off when it began.</p>;
  return (
    <a
      className="button self-start"
      href={address.replaceAll('{traceId}', encodeURIComponent(run.traceId))}
      target="_blank"
      rel="noopener noreferrer"
    >
      Open trace <ExternalLink size={12} aria-hidden="true" />
    </a>
  );
}
