import { useQuery } from '@tanstack/react-query';
import { CloudOff } from 'lucide-react';
import { type ReactNode, useEffect, useRef } from 'react';
import { client, queries } from '../api.ts';
import { useNow } from '../clock.ts';
import { useLostConnection } from '../connection.ts';
import { Since } from '../ui/time.tsx';

const ASK_AGAIN_AFTER_MS = 3_000;
/** A request that failed once is often repeated with success. */
const SHOWN_AFTER_MS = 1_000;

/** Says that the service does not answer, for as long as it does not, and reads the page again afterwards. */
export function LostConnection(): ReactNode {
  const lostAtMs = useLostConnection();
  const wasLost = useRef(false);
  useQuery({
    queryKey: ['is-back'],
    queryFn: ({ signal }) => client.readiness({ signal }),
    enabled: lostAtMs !== null,
    refetchInterval: ASK_AGAIN_AFTER_MS,
    refetchIntervalInBackground: true,
    gcTime: 0,
  });
  useEffect(() => {
    if (lostAtMs === null && wasLost.current) void queries.invalidateQueries({ refetchType: 'active' });
    wasLost.current = lostAtMs !== null;
  }, [lostAtMs]);
  const nowMs = useNow();
  if (lostAtMs === null || nowMs - lostAtMs < SHOWN_AFTER_MS) return null;
  return (
    <div role="alert" className="flex flex-none items-center gap-2 border-b border-line bg-panel px-3 py-1 text-failed">
      <CloudOff size={14} className="flex-none" aria-hidden="true" />
      <span>
        The service has not answered for <Since at={new Date(lostAtMs).toISOString()} />. This page shows what it knew,
        and goes on when the service is back.
      </span>
    </div>
  );
}
