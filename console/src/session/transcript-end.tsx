import type { Run } from '@baton-run/server/client';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { failureWords, plural } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { waitsForPerson, waitWords } from '../pages/waits-for.ts';
import { Empty } from '../ui/empty.tsx';
import { State } from '../ui/state.tsx';
import { Since, Time } from '../ui/time.tsx';
import { OutputMisfit } from './output-misfit.tsx';
import { ProviderError } from './provider-error.tsx';
import { useHead, useNewestRun, useOpened } from './session-context.tsx';

const REASONS: Readonly<Record<string, string>> = {
  max_steps: 'It has reached its largest number of steps.',
  budget: 'It has used up its budget.',
  deadline: 'It has reached its deadline.',
  doom_loop: 'Five steps in a row made the same calls with the same results.',
  context_exhausted: 'The context is full.',
  output_invalid: 'Its answers did not fit the schema of the result.',
};

/** The part below the last message: the cause of the run's wait, or the end of the run and the way to go on. */
export function TranscriptEnd({ isEmpty }: Readonly<{ isEmpty: boolean }>): ReactNode {
  const head = useHead();
  const run = useNewestRun();
  if (head === undefined) return null;
  const { waitsFor } = head.overview;
  if (waitsFor !== null && head.status !== 'idle') {
    return (
      <p className="flex flex-wrap items-center gap-x-2 px-4 py-2 text-dim">
        <State state={waitsForPerson(waitsFor) ? 'requires_action' : 'queued'}>waits for {waitWords(waitsFor)}</State>
        {waitsFor.since !== null && (
          <span>
            for <Since at={waitsFor.since} />
          </span>
        )}
        {waitsFor.until !== null && (
          <span>
            · goes on <Time at={waitsFor.until} />
          </span>
        )}
      </p>
    );
  }
  if (head.compactingSince !== null) {
    return (
      <p className="px-4 py-2 text-dim">
        <State state="running">compacting</State> for <Since at={head.compactingSince} />
      </p>
    );
  }
  if (run !== undefined && head.status === 'idle' && ['failed', 'incomplete', 'cancelled'].includes(run.status)) {
    return <StoppedRun run={run} />;
  }
  if (!isEmpty) return null;
  return (
    <Empty title="Nothing has been said yet">
      <p>Write the first message below. The agent answers here, step by step.</p>
    </Empty>
  );
}

/** The reason why the newest run stopped, and a button to resume it. */
function StoppedRun({ run }: Readonly<{ run: Run }>): ReactNode {
  const { sessionId } = useOpened();
  const queued = useHead()?.overview.queued ?? 0;
  const refusal = useRefusal('write');
  const { mutate, isPending } = useMutation({
    mutationFn: () => client.sessions.resume(sessionId),
    onSuccess: () => notify('Resumed'),
    onError: (error) => notify(failureWords(error), 'failed'),
  });
  return (
    <section className="flex flex-col items-start gap-2 px-4 py-2" aria-label="End of the run">
      <p>
        <State state={run.status}>
          The run{' '}
          {run.reason === 'output_invalid'
            ? 'has no result'
            : run.status === 'incomplete'
              ? 'stopped at a limit'
              : run.status === 'failed'
                ? 'failed'
                : 'was cancelled'}
        </State>
        {run.reason !== null && <span className="text-dim"> {REASONS[run.reason] ?? run.reason}</span>}
        {run.finishedAt !== null && (
          <span className="text-dim">
            {' '}
            <Time at={run.finishedAt} />
          </span>
        )}
      </p>
      {run.error !== null && <ProviderError error={run.error} />}
      {run.reason === 'output_invalid' && <OutputMisfit run={run} />}
      <p className="flex flex-wrap items-center gap-2 text-dim">
        <button
          type="button"
          className="button small"
          disabled={refusal !== undefined || isPending}
          title={refusal ?? 'Go on where it stopped'}
          onClick={() => mutate()}
        >
          Resume
        </button>
        {queued > 0
          ? `${plural(queued, 'message')} wait for that, or for your next message.`
          : 'Or send a message: the agent goes on from here.'}
      </p>
    </section>
  );
}
