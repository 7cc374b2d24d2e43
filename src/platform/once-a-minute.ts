import type { Log, LogEvent } from './log.ts';

const MINUTE_MS = 60_000;

/** Causes that are told apart at a time. Further ones of one event count as one. */
const MAX_CAUSES = 1_000;

/** Ids of one thing. A failure of one run is a fact of that run, and is looked for by its id. */
const OF_ONE_THING = ['runId', 'sessionId', 'deliveryId', 'scheduleId', 'webhookId', 'requestId'] as const;

/** Facts that can repeat as quickly as somebody asks, or as something breaks, although they have no error. */
const REPEATING: ReadonlySet<LogEvent['event']> = new Set([
  'authenticate_failed',
  'http_dropped',
  'mcp_server_connected',
  'mcp_tools_changed',
  'mcp_tools_missing',
  'mcp_tool_left_out',
  'queue_prefix_shared',
  'spans_lost',
  'step_process_ended',
  'worker_lock_lost',
  'worker_lock_regained',
]);

/** What tells one request from another. While a store is away, all of them fail for the same cause. */
const OF_ONE_REQUEST = ['requestId', 'path', 'method'];

type Said = { level: Parameters<Log>[0]; event: LogEvent; repeated: number; timer: NodeJS.Timeout };

/** A log that is flushed when it is disposed. */
export type PatientLog = Disposable & Readonly<{ log: Log }>;

/**
 * Says each failure that can repeat once for each cause and minute: at once, and at the end of the minute with the
 * number of times that it came again (`repeated`). A cause is an event with its error; numbers in it do not count.
 */
export function sayOnceAMinute(log: Log, minuteMs: number = MINUTE_MS): PatientLog {
  const causes = new Map<string, Said>();
  const begin = (cause: string, level: Said['level'], event: LogEvent): void => {
    const timer = setTimeout(() => end(cause), minuteMs).unref();
    causes.set(cause, { level, event, repeated: 0, timer });
  };
  /** A failure that goes on is said again each minute. */
  const end = (cause: string): void => {
    const entry = causes.get(cause);
    causes.delete(cause);
    if (entry === undefined || entry.repeated === 0) return;
    begin(cause, entry.level, entry.event);
    tell(entry);
  };
  const tell = ({ level, event, repeated }: Said): void => log(level, Object.assign({ ...event }, { repeated }));
  return {
    log(level, event) {
      const cause = causeOf(level, event, (each) => causes.has(each) || causes.size < MAX_CAUSES);
      if (cause === null) return log(level, event);
      const entry = causes.get(cause);
      if (entry === undefined) {
        begin(cause, level, event);
        log(level, event);
      } else {
        entry.repeated += 1;
        entry.event = event;
      }
    },
    [Symbol.dispose]() {
      for (const entry of causes.values()) {
        clearTimeout(entry.timer);
        if (entry.repeated > 0) tell(entry);
      }
      causes.clear();
    },
  };
}

/** Null: each of these events is said. */
function causeOf(level: string, event: LogEvent, hasRoom: (cause: string) => boolean): string | null {
  const isOfStore = event.event === 'http_request_failed' && event.status === 503;
  if (!isOfStore && OF_ONE_THING.some((id) => id in event)) return null;
  if (!('error' in event || REPEATING.has(event.event))) return null;
  const words = Object.entries(event).map(([key, value]) => {
    const isOther = key === 'runIds' || typeof value === 'number' || (isOfStore && OF_ONE_REQUEST.includes(key));
    return isOther ? key : `${key}=${JSON.stringify(value)}`;
  });
  const cause = `${level} ${words.join(' ')}`.replaceAll(/\d+/g, '#');
  return hasRoom(cause) ? cause : `${level} ${event.event}`;
}
