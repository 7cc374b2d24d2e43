import type { ListedSession, StepRow } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, useCallback, useEffect, useState } from 'react';
import { useLostConnection } from '../connection.ts';
import { isUnreachable } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useMay } from '../layout/caller.ts';
import { Empty, Failure } from '../ui/empty.tsx';
import { Composer } from './composer.tsx';
import { ContextStrip } from './context-strip.tsx';
import { originOf, useFamilyKeys } from './family-keys.ts';
import { isGone } from './follow-session.ts';
import { SessionHeader } from './header.tsx';
import { Inspector } from './inspector.tsx';
import { OpenCalls } from './open-calls.tsx';
import { PANES, type Pane, type SessionSearch, TABS, type Tab } from './search.ts';
import { useSessionActions } from './session-actions.tsx';
import { contextQuery, headQuery, OpenSession, useNewestRun, useOpened, useTranscript } from './session-context.tsx';
import type { Row } from './step-rows.ts';
import { Transcript } from './transcript.tsx';
import { Children } from './use-children.ts';
import { useNarrow } from './use-narrow.ts';
import { useStable } from './use-stable.ts';
import { useStepRows } from './use-step-rows.ts';
import { Waterfall } from './waterfall.tsx';

/** One session, live: its transcript, its steps, and the requests that the model was shown. */
export function SessionPage(): ReactNode {
  const { sessionId } = useParams({ from: '/sessions/$sessionId' });
  const mayRead = useMay('read');
  const [ended, end] = useState<Readonly<{ sessionId: string; error: unknown; no: number }> | null>(null);
  const onEnd = useCallback(
    (error: unknown) => end((before) => ({ sessionId, error, no: (before?.no ?? 0) + 1 })),
    [sessionId],
  );
  const lostAtMs = useLostConnection();
  const hasNoAnswer = isUnreachable(ended?.error);
  // A page that was opened while the service was away goes on when the service is back.
  useEffect(() => {
    if (lostAtMs === null && hasNoAnswer) end(null);
  }, [lostAtMs, hasNoAnswer]);
  if (!mayRead) {
    return (
      <Empty title="Your key does not show sessions">
        <p>The key lacks the scope read. Log in with a key that has it.</p>
      </Empty>
    );
  }
  const current = ended?.sessionId === sessionId ? ended : null;
  if (current !== null) return <Ended error={current.error} again={() => end(null)} />;
  return (
    <OpenSession sessionId={sessionId} ended={onEnd}>
      <OpenedSession />
    </OpenSession>
  );
}

function Ended({ error, again }: Readonly<{ error: unknown; again: () => void }>): ReactNode {
  if (!isGone(error)) return <Failure error={error} retry={again} />;
  return (
    <Empty title="The session is not here">
      <p>The session was deleted, has expired, belongs to another tenant, or never existed.</p>
      <Link to="/sessions" className="button">
        Show all sessions
      </Link>
    </Empty>
  );
}

function OpenedSession(): ReactNode {
  const { sessionId } = useOpened();
  const { data: session, error, refetch } = useQuery(headQuery(sessionId));
  useEffect(() => {
    if (session === undefined) return;
    const before = document.title;
    document.title = `${session.name} · Baton`;
    return () => {
      document.title = before;
    };
  }, [session]);
  if (isGone(error)) return <Ended error={error} again={() => undefined} />;
  if (session === undefined)
    return error === null ? <HeadSkeleton /> : <Failure error={error} retry={() => void refetch()} />;
  return <Session session={session} />;
}

const HeadSkeleton = (): ReactNode => (
  <div aria-busy="true" className="flex flex-col gap-3 border-b border-line p-3">
    <span className="skeleton h-3 w-64" />
    <span className="skeleton h-2 w-48" />
  </div>
);

/** The choice that the address of the page holds, and a function that changes it. */
function useChoice() {
  const search = useSearch({ from: '/sessions/$sessionId' });
  const navigate = useNavigate({ from: '/sessions/$sessionId' });
  const change = (next: SessionSearch): void => void navigate({ search: next, replace: true });
  return { search, change };
}

const stepOf = (
  rows: readonly Row[],
  runId: string | undefined,
  { step, attempt, message }: SessionSearch,
): StepRow | undefined =>
  rows.findLast(
    (row): row is Extract<Row, { kind: 'step' }> =>
      row.kind === 'step' &&
      row.run.id === runId &&
      row.of.step === step &&
      (attempt === undefined || row.of.attempt === attempt) &&
      (message === undefined || row.of.messageId === message),
  )?.of;

function Session({ session }: Readonly<{ session: ListedSession }>): ReactNode {
  const { sessionId } = useOpened();
  const { search, change } = useChoice();
  const newest = useNewestRun();
  const runId = search.run ?? newest?.id;
  const steps = useStepRows(search.run, search.step);
  const chosen = search.step === undefined ? undefined : stepOf(steps.rows, runId, search);
  const meter = useQuery(contextQuery(sessionId)).data;
  const origin = originOf(session, steps.rows, runId);
  useFamilyKeys(origin, steps.children, { chosen, newest });
  const isNarrow = useNarrow();
  const { pane = 'talk' } = search;
  const tab: Tab = search.tab ?? 'request';
  const openStep = (to: Readonly<{ run: string; step: number; attempt?: number; message?: string }>): void =>
    change({
      ...to,
      ...(search.tab !== undefined && { tab: search.tab }),
      ...(isNarrow && { pane: 'details' as const }),
    });
  // `choose` stays the same function, so that the rows of the waterfall and the bars of the strip need not render anew.
  const { choose } = useStable({
    choose: (row: Extract<Row, { kind: 'step' }>): void =>
      openStep({
        run: row.run.id,
        step: row.of.step,
        ...(row.of.attempt > 1 && { attempt: row.of.attempt }),
        // A step that was interrupted and asked again has several rows.
        ...(row.of.state === 'superseded' && { message: row.of.messageId }),
      }),
  });
  const close = (): void => change(isNarrow ? { pane: 'steps' } : {});
  const actions = useSessionActions(session);
  useKeys('Session', {
    Escape: ['Close the step', close],
    ...Object.fromEntries(
      TABS.map((name, index) => [
        `${index + 1}`,
        [`Tab: ${name}`, () => search.step !== undefined && change({ ...search, tab: name })],
      ]),
    ),
  });
  const talk = (
    <Talk
      fork={actions.fork}
      editAndSend={actions.editAndSend}
      refusal={actions.refusal}
      openStep={openStep}
      chosenSeq={chosen?.seq ?? search.at ?? null}
    />
  );
  const middle = (
    <section aria-label="Steps and context" className="flex h-full min-h-0 min-w-0 flex-col">
      <ContextStrip rows={steps.rows} meter={meter} chosen={chosen} choose={choose} />
      <div className="min-h-0 flex-1">
        <Waterfall steps={steps} chosen={chosen} choose={choose} />
      </div>
    </section>
  );
  const details = (
    <Inspector
      runId={runId}
      row={chosen}
      isAsked={search.step !== undefined}
      isReading={steps.isReading}
      tab={tab}
      choose={(name) => change({ ...search, tab: name })}
      close={close}
    />
  );
  return (
    <Children value={steps.children}>
      <div className="flex h-full flex-col">
        <SessionHeader session={session} origin={origin} actions={actions} />
        {isNarrow ? (
          <>
            <PaneTabs pane={pane} choose={(next) => change({ ...search, pane: next })} />
            <div className="min-h-0 flex-1">{{ talk, steps: middle, details }[pane]}</div>
          </>
        ) : (
          <div className="grid min-h-0 flex-1 grid-cols-2 grid-rows-[2fr_3fr] xl:grid-cols-[minmax(0,5fr)_minmax(0,4fr)_minmax(0,4fr)] xl:grid-rows-1">
            <div className="row-span-2 min-h-0 min-w-0 border-r border-line xl:row-span-1">{talk}</div>
            <div className="min-h-0 min-w-0 border-line max-xl:border-b xl:border-r">{middle}</div>
            <aside aria-label="Inspector" className="min-h-0 min-w-0">
              {details}
            </aside>
          </div>
        )}
        {actions.dialogs}
      </div>
    </Children>
  );
}

const PANE_WORDS: Readonly<Record<Pane, string>> = { talk: 'Transcript', steps: 'Steps', details: 'Details' };

const PaneTabs = ({ pane, choose }: Readonly<{ pane: Pane; choose: (pane: Pane) => void }>): ReactNode => (
  <nav aria-label="Parts of the session" className="flex flex-none border-b border-line px-1">
    {PANES.map((name) => (
      <button
        key={name}
        type="button"
        className="tab flex-1"
        aria-current={pane === name}
        data-active={pane === name ? '' : undefined}
        onClick={() => choose(name)}
      >
        {PANE_WORDS[name]}
      </button>
    ))}
  </nav>
);

type TalkProps = Readonly<{
  fork: ReturnType<typeof useSessionActions>['fork'];
  editAndSend: ReturnType<typeof useSessionActions>['editAndSend'];
  refusal: string | undefined;
  openStep: (to: Readonly<{ run: string; step: number }>) => void;
  /** The message of the chosen step, or that of a search. */
  chosenSeq: number | null;
}>;

function Talk({ fork, editAndSend, refusal, openStep, chosenSeq }: TalkProps): ReactNode {
  const transcript = useTranscript();
  const failure = transcript.failure();
  const actions = useStable({
    fork,
    editAndSend,
    refusal,
    openStep: ({ runId, step }: Readonly<{ runId: string | null; step: number | null }>) => {
      if (runId !== null && step !== null) openStep({ run: runId, step });
    },
  });
  return (
    <section aria-label="Conversation" className="flex h-full min-h-0 flex-col">
      {failure !== null && !isUnreachable(failure) && transcript.lastSeq() !== null && (
        <Failure error={failure} retry={() => void transcript.refresh()} />
      )}
      <div className="min-h-0 flex-1">
        <Transcript actions={actions} chosenSeq={chosenSeq} />
      </div>
      <OpenCalls />
      <Composer />
    </section>
  );
}
