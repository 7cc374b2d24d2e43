import type { Schedule, Webhook } from '@baton-run/server/client';
import type { ReactNode } from 'react';
import { clipped } from '../format.ts';

/** The key of a webhook or schedule, and the program or file that declares it; null: it has none. */
type Named = Readonly<{ key: string | null; declaredBy: string | null }>;

/** The names that the service gives to files, and to a program that names itself not. */
const DECLARERS: Readonly<Record<string, string>> = { files: 'in files', program: 'by a program' };

const declarer = (name: string): string => DECLARERS[name] ?? `by the program ${clipped(name, 64)}`;

/** A line of a list with the key and the declarer. Nothing for what was made without both. */
export function NameLine({ named: { key, declaredBy } }: Readonly<{ named: Named }>): ReactNode {
  if (key === null && declaredBy === null) return null;
  return (
    <span className="truncate text-sm text-dim">
      {key !== null && <span className="font-mono text-xs">key:{clipped(key, 256)}</span>}
      {key !== null && declaredBy !== null && ' · '}
      {declaredBy !== null && `declared ${declarer(declaredBy)}`}
    </span>
  );
}

/** The meaning of a change by hand of a webhook that is declared. */
export const WebhookNotice = ({ webhook }: Readonly<{ webhook: Webhook }>): ReactNode => (
  <Notice
    noun="webhook"
    declaredBy={webhook.declaredBy}
    gone={
      webhook.disabledFor === 'undeclared'
        ? 'so it is disabled. Enabled here, it is disabled again by the next start'
        : null
    }
    stop="disable it"
  />
);

/** The meaning of a change by hand of a schedule that is declared. */
export const ScheduleNotice = ({ schedule }: Readonly<{ schedule: Schedule }>): ReactNode => (
  <Notice
    noun="schedule"
    declaredBy={schedule.declaredBy}
    gone={
      schedule.pausedReason === 'no longer declared'
        ? 'so it is paused. Set going here, it is paused again by the next start'
        : null
    }
    stop="pause it"
  />
);

type NoticeProps = Readonly<{
  noun: string;
  declaredBy: string | null;
  /** The state of an object whose declaration is gone, in words; null: the declaration is still there. */
  gone: string | null;
  /** The change by hand that lasts. */
  stop: string;
}>;

function Notice({ noun, declaredBy, gone, stop }: NoticeProps): ReactNode {
  if (declaredBy === null) return null;
  const declared = `declared ${declarer(declaredBy)}`;
  return (
    <p className="max-w-3xl border-l-2 border-strong-line pl-2 text-sm text-dim wrap-anywhere">
      {gone === null
        ? `This ${noun} is ${declared}. The next start puts back what is declared: a change that is made here lasts until then, and a deleted ${noun} is made anew. To stop it, ${stop}: that lasts.`
        : `This ${noun} was ${declared} and is not any more, ${gone}; declared again, it goes on. Delete it when nothing needs it.`}
    </p>
  );
}
