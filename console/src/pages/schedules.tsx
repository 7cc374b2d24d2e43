import type { Schedule, ScheduleFire } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { ChevronDown, ChevronRight } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client, queries } from '../api.ts';
import { clipped, exactTime, failureWords } from '../format.ts';
import { useMay, useRefusal } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { ActionButton } from '../ui/action-button.tsx';
import { ActionDialog } from '../ui/dialog.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { SessionLink } from '../ui/session-link.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';
import { NameLine, ScheduleNotice } from './declared.tsx';
import { ScheduleForm } from './schedule-form.tsx';
import { useForms } from './use-forms.tsx';

const READ_AGAIN_AFTER_MS = 10_000;
const SHOWN_FIRES = 20;

/** The messages that agents get by the clock: when next, and what became of the last ones. */
export function SchedulesPage(): ReactNode {
  const mayRead = useMay('read');
  const { open } = useSearch({ from: '/schedules' });
  const navigate = useNavigate({ from: '/schedules' });
  const list = useQuery({
    queryKey: ['schedules'],
    queryFn: ({ signal }) => client.schedules.list({ signal }),
    enabled: mayRead,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const schedules = list.data?.schedules ?? [];
  const form = useScheduleForm(
    schedules.find(({ id }) => id === open),
    (saved) => {
      void navigate({ search: { open: saved.id }, replace: true });
      void queries.invalidateQueries({ queryKey: ['schedule', saved.id] });
      void list.refetch();
    },
  );
  if (!mayRead) return <LacksScope scopes="read" />;
  return (
    <Page title="Schedules" tools={form.create}>
      {form.dialog}
      {list.isPending ? (
        <SkeletonRows rows={6} height={56} />
      ) : list.isError && list.data === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : schedules.length === 0 ? (
        <Empty title="There is no schedule">
          <p>A schedule sends a message to an agent by the clock. Make one here, or with</p>
          <code className="plain rounded border border-line bg-panel p-2">
            npm run -s baton -- schedules create AGENT "0 9 * * 1-5" "Summarize the open tickets."
          </code>
        </Empty>
      ) : (
        <ul>
          {schedules.map((schedule) => (
            <ScheduleItem
              key={schedule.id}
              schedule={schedule}
              isOpen={schedule.id === open}
              toggle={() => void navigate({ search: schedule.id === open ? {} : { open: schedule.id }, replace: true })}
              edit={form.edit}
              again={() => void list.refetch()}
              removed={() => {
                void navigate({ search: {}, replace: true });
                void list.refetch();
              }}
            />
          ))}
        </ul>
      )}
    </Page>
  );
}

/** The form for a new schedule and for the unfolded one, with the button, the keys and the commands that open it. */
function useScheduleForm(opened: Schedule | undefined, saved: (schedule: Schedule) => void) {
  const [form, show] = useState<Readonly<{ of: Schedule | null }> | null>(null);
  const { create, edit } = useForms({
    noun: 'schedule',
    opened: opened === undefined ? undefined : clipped(opened.title ?? opened.content, 60),
    create: () => show({ of: null }),
    edit: () => opened !== undefined && show({ of: opened }),
  });
  const close = (): void => show(null);
  const dialog = form === null ? null : <ScheduleForm schedule={form.of} close={close} saved={saved} />;
  return { create, edit, dialog };
}

type ItemProps = Readonly<{
  schedule: Schedule;
  isOpen: boolean;
  toggle: () => void;
  /** Shows the form of the unfolded one; undefined: this key may not. */
  edit: (() => void) | undefined;
  again: () => void;
  removed: () => void;
}>;

function ScheduleItem({ schedule, isOpen, toggle, edit, again, removed }: ItemProps): ReactNode {
  const { agent, cron, timezone, content, title, paused, pausedReason, nextFireAt } = schedule;
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <li className="border-b border-line">
      <button
        type="button"
        aria-expanded={isOpen}
        className={`flex w-full flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2 text-left hover:bg-hover ${isOpen ? 'bg-chosen' : ''}`}
        onClick={toggle}
      >
        <Chevron size={14} className="flex-none text-dim" aria-hidden="true" />
        <span className="flex min-w-0 basis-72 grow flex-col">
          <span className="truncate font-medium" dir="auto">
            {clipped(title ?? content, 200)}
          </span>
          <span className="truncate text-sm text-dim">{clipped(agent, 100)}</span>
          <NameLine named={schedule} />
        </span>
        <span className="font-mono text-sm max-sm:pl-7.5" title={timezone}>
          {cron} <span className="font-sans text-dim">{timezone}</span>
        </span>
        <span
          className="w-44 flex-none truncate text-right text-sm text-dim max-sm:w-auto max-sm:grow"
          title={pausedReason ?? undefined}
        >
          {paused ? (
            <State state="waiting">paused</State>
          ) : nextFireAt === null ? (
            'never fires again'
          ) : (
            <>
              next <Time at={nextFireAt} />
            </>
          )}
        </span>
      </button>
      {isOpen && <Details schedule={schedule} edit={edit} again={again} removed={removed} />}
    </li>
  );
}

type DetailProps = Pick<ItemProps, 'schedule' | 'edit' | 'again' | 'removed'>;

function Details({ schedule, edit, again, removed }: DetailProps): ReactNode {
  const { id, content, paused, pausedReason, session, overlap, catchup, sessionId } = schedule;
  const next = useQuery({
    queryKey: ['schedule', id, 'next'],
    queryFn: ({ signal }) => client.schedules.next(id, { n: 10, signal }),
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const fires = useQuery({
    queryKey: ['schedule', id, 'fires'],
    queryFn: ({ signal }) => client.schedules.fires(id, { limit: SHOWN_FIRES, signal }),
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  return (
    <div className="flex flex-col gap-3 bg-panel px-3 py-3">
      <Actions
        schedule={schedule}
        edit={edit}
        again={() => [again(), void fires.refetch(), void next.refetch()]}
        removed={removed}
      />
      <ScheduleNotice schedule={schedule} />
      {pausedReason !== null && pausedReason !== 'request' && (
        <p className="text-waiting wrap-anywhere">Paused: {clipped(pausedReason, 500)}</p>
      )}
      <p className="wrap-anywhere" dir="auto">
        {clipped(content, 2_000)}
      </p>
      <p className="text-sm text-dim">
        {session === 'new' ? 'Each fire begins a session.' : 'All fires are messages of one session.'} A fire that is
        due while the last run is active {OVERLAPS[overlap]}. {CATCHUPS[catchup]}{' '}
        {sessionId !== null && <SessionLink id={sessionId} />}
      </p>
      <section>
        <h2 className="mb-1 text-sm text-dim">
          {paused ? 'The next ten times, once it goes on' : 'The next ten times'}
        </h2>
        {next.isError && <Failure error={next.error} retry={() => void next.refetch()} />}
        <ol className="grid grid-cols-[repeat(auto-fill,minmax(190px,1fr))] gap-x-4">
          {(next.data?.fires ?? []).map((at) => (
            <li key={at}>
              <time dateTime={at} title={exactTime(at)}>
                {exactTime(at).split('\n')[0]}
              </time>
            </li>
          ))}
        </ol>
        {next.data?.fires.length === 0 && <p className="text-dim">The schedule never fires again.</p>}
      </section>
      <section>
        <h2 className="mb-1 text-sm text-dim">Last fires</h2>
        {fires.isError && <Failure error={fires.error} retry={() => void fires.refetch()} />}
        {fires.data?.fires.length === 0 && <p className="text-dim">The schedule has not fired yet.</p>}
        {(fires.data?.fires.length ?? 0) > 0 && <Fires fires={fires.data?.fires ?? []} />}
      </section>
    </div>
  );
}

const OVERLAPS: Readonly<Record<Schedule['overlap'], string>> = {
  skip: 'is left out',
  queue: 'waits',
  replace: 'cancels that run',
};
const CATCHUPS: Readonly<Record<Schedule['catchup'], string>> = {
  none: 'Missed fires are not made up for.',
  last: 'Of missed fires the last one fires late.',
};

const RESULTS: Readonly<Record<ScheduleFire['result'], string>> = {
  fired: 'completed',
  skipped: 'cancelled',
  missed: 'incomplete',
  failed: 'failed',
};

const Fires = ({ fires }: Readonly<{ fires: readonly ScheduleFire[] }>): ReactNode => (
  <Wide label="Fires">
    <table className="table">
      <thead>
        <tr>
          <th>Due</th>
          <th>Result</th>
          <th>Session</th>
          <th>Why not</th>
        </tr>
      </thead>
      <tbody>
        {fires.map(({ fireAt, result, sessionId, error }) => (
          <tr key={fireAt}>
            <td>
              <Time at={fireAt} />
            </td>
            <td>
              <State state={RESULTS[result]}>{result}</State>
            </td>
            <td>{sessionId === null ? '' : <SessionLink id={sessionId} />}</td>
            <td
              className="max-w-96 truncate text-dim"
              title={error === null ? undefined : failureWords(error)}
              dir="auto"
            >
              {error === null ? '' : clipped(error.message, 300)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </Wide>
);

function Actions({ schedule, edit, again, removed }: DetailProps): ReactNode {
  const { id, paused, title, content } = schedule;
  const refused = useRefusal('write');
  const [isAsked, ask] = useState(false);
  const run = (words: () => Promise<string>) => () => void act(words).then(again);
  return (
    <div className="flex flex-wrap gap-2">
      <ActionButton
        refused={refused}
        title="Fire the schedule now. The next time stays."
        run={run(async () => `Fired: ${(await client.schedules.run(id)).runId}`)}
      >
        Run now
      </ActionButton>
      {paused ? (
        <ActionButton
          refused={refused}
          title="Fires again from now on. Fires that were due meanwhile are left out."
          run={run(async () => ((await client.schedules.resume(id)).paused ? 'It is still paused' : 'It goes on'))}
        >
          Go on
        </ActionButton>
      ) : (
        <ActionButton
          refused={refused}
          run={run(async () => ((await client.schedules.pause(id)).paused ? 'Paused' : 'It is not paused'))}
        >
          Pause
        </ActionButton>
      )}
      {edit !== undefined && (
        <ActionButton run={edit} keys="e">
          Change…
        </ActionButton>
      )}
      <ActionButton refused={refused} look="danger" run={() => ask(true)}>
        Delete…
      </ActionButton>
      <ActionDialog
        isOpen={isAsked}
        close={() => ask(false)}
        title="Delete the schedule?"
        act="Delete"
        isDangerous
        run={() => client.schedules.delete(id).then(removed)}
      >
        <p className="wrap-anywhere" dir="auto">
          <b className="font-semibold">{clipped(title ?? content, 120)}</b>
        </p>
        <p>The schedule fires no more. The sessions that it has begun stay.</p>
        <ScheduleNotice schedule={schedule} />
      </ActionDialog>
    </div>
  );
}
