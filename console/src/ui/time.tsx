import type { ReactNode } from 'react';
import { useNow } from '../clock.ts';
import { duration, exactTime, relativeTime } from '../format.ts';

/** A time as the distance to now; its tooltip has the exact one. */
export function Time({ at }: Readonly<{ at: string }>): ReactNode {
  const nowMs = useNow();
  return (
    <time dateTime={at} title={exactTime(at)} className="whitespace-nowrap">
      {relativeTime(Date.parse(at), nowMs)}
    </time>
  );
}

/** The time since something began that has not ended. */
export function Since({ at }: Readonly<{ at: string }>): ReactNode {
  const nowMs = useNow();
  return (
    <time dateTime={at} title={`since ${exactTime(at)}`} className="whitespace-nowrap">
      {duration(Math.max(1_000, Math.floor((nowMs - Date.parse(at)) / 1_000) * 1_000))}
    </time>
  );
}
