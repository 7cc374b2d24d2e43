import type { AllErrorGroups, ErrorGroups } from '@baton-run/server/client';
import { Link } from '@tanstack/react-router';
import { ChevronDown, ChevronRight } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { ACTIONS, useCommands } from '../commands.ts';
import { clipped, count, plural } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { ActionButton } from '../ui/action-button.tsx';
import { Bars } from '../ui/bars.tsx';
import { Id } from '../ui/copy.tsx';
import { Time } from '../ui/time.tsx';
import { barsOf } from './hours.ts';
import { ResumeAll } from './resume-all.tsx';
import type { Window } from './window.ts';

export type Group = ErrorGroups['groups'][number] | AllErrorGroups['groups'][number];
type Failed = Group['newest'][number];

/** Longer messages are shown whole by the session. */
const MAX_SHOWN_CHARS = 4_000;

type Props = Readonly<{ group: Group; window: Window; isOpen: boolean; toggle: () => void; again: () => void }>;

/** A cause with its failures over time; unfolded with the newest ones. */
export function ErrorGroupRow({ group, window, isOpen, toggle, again }: Props): ReactNode {
  const { code, provider, model, agent, count: failures, lastAt, firstAt, hours } = group;
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  const bars = barsOf(hours, window);
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
          <span className="flex items-center gap-2">
            <span className="truncate font-medium text-failed">{code.replaceAll('_', ' ')}</span>
            <span className="truncate text-sm text-dim">
              {[provider, model, agent].filter((part) => part !== null && part !== '').join(' · ')}
            </span>
          </span>
          <span
            className="truncate text-sm"
            dir="auto"
            title={'text' in group ? `Grouped by: ${group.text}` : undefined}
          >
            {exampleOf(group)}
          </span>
        </span>
        <span className="w-3.5 flex-none sm:hidden" aria-hidden="true" />
        <Bars bars={bars.bars} label={`${plural(failures, 'failure')}, per ${bars.per}`} />
        <span className="w-20 flex-none text-right" title={`${count(failures)} failed runs`}>
          <b className="font-semibold">{count(failures)}</b>{' '}
          <span className="text-sm text-dim">{failures === 1 ? 'run' : 'runs'}</span>
        </span>
        <span className="flex w-24 flex-none flex-col text-right text-sm text-dim">
          <Time at={lastAt} />
          <span>
            first <Time at={firstAt} />
          </span>
        </span>
      </button>
      {isOpen && <Newest group={group} window={window} again={again} />}
    </li>
  );
}

/** The newest failure in its own words: in those of the group all numbers are missing. */
function exampleOf(group: Group): string {
  if (!('text' in group)) return `in ${plural(group.tenants, 'tenant')}`;
  return clipped(group.newest[0]?.message ?? group.text, 500);
}

type NewestProps = Pick<Props, 'group' | 'window' | 'again'>;

function Newest({ group, window, again }: NewestProps): ReactNode {
  const refused = useRefusal('write');
  const [busy, setBusy] = useState<string | null>(null);
  const [isAsked, ask] = useState(false);
  const isOfTenant = 'text' in group;
  const resume = async ({ runId, sessionId }: Failed): Promise<void> => {
    setBusy(runId);
    await act(async () => `The session goes on with ${(await client.sessions.resume(sessionId)).runId}.`);
    setBusy(null);
    again();
  };
  const mine = group.newest.filter((failed) => !('tenant' in failed));
  useCommands([
    ...(isOfTenant
      ? [{ group: ACTIONS, words: 'Resume all sessions with this cause', refused, run: () => ask(true) }]
      : []),
    ...mine.map((failed) => ({
      group: ACTIONS,
      words: `Resume the session ${failed.sessionId}`,
      refused,
      run: () => void resume(failed),
    })),
  ]);
  return (
    <div className="bg-panel px-3 pb-3">
      <div className="flex flex-wrap items-center justify-between gap-2 py-2">
        <h2 className="text-sm text-dim">
          {group.newest.length === 1 ? 'The newest failure' : `The newest ${group.newest.length} failures`}
        </h2>
        {isOfTenant && group.count > 1 && (
          <ActionButton
            run={() => ask(true)}
            refused={refused}
            title="Resume every session that stopped with this cause and has not gone on"
          >
            Resume them all…
          </ActionButton>
        )}
      </div>
      {isAsked && <ResumeAll fingerprint={group.fingerprint} window={window} close={() => ask(false)} again={again} />}
      <ul className="flex flex-col gap-2">
        {group.newest.map((failed) => (
          <li key={failed.runId} className="rounded border border-line bg-page px-3 py-2">
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
              {'tenant' in failed ? (
                <span>
                  Tenant {failed.tenant}, session <Id id={failed.sessionId} />
                </span>
              ) : (
                <Link
                  to="/sessions/$sessionId"
                  params={{ sessionId: failed.sessionId }}
                  className="font-mono text-xs text-accent underline underline-offset-4"
                  title={failed.sessionId}
                >
                  ses_…{failed.sessionId.slice(-8)}
                </Link>
              )}
              <Id id={failed.runId} />
              <span className="text-sm text-dim">
                <Time at={failed.at} />
              </span>
              <span className="flex-1" />
              {!('tenant' in failed) && (
                <ActionButton
                  run={() => void resume(failed)}
                  refused={refused}
                  isBusy={busy === failed.runId}
                  title="Go on where the run stopped, with the messages that wait"
                >
                  Resume
                </ActionButton>
              )}
            </div>
            {'message' in failed && (
              <p className="plain mt-1" dir="auto">
                {clipped(failed.message, MAX_SHOWN_CHARS)}
              </p>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}
