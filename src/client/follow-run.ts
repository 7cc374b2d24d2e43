import type { EventPage, SnapshotEvent, StreamEvent } from './session-events.ts';

const ENDS: ReadonlySet<string> = new Set(['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete']);

type Page = Readonly<{ after: number }>;

type RunLog = Readonly<{
  /** Reads a page of the session's log. */
  readPage: (page: Page) => Promise<EventPage>;
  /** Whether the service says now that the run has ended. */
  hasEnded: () => Promise<boolean>;
  /** The stream replays the log from here; without it, it begins with the snapshot. */
  after: number | undefined;
}>;

/**
 * The events of a session until one of its runs has ended, its end included. Events of other runs come, too.
 * @param events the session's stream
 */
export async function* untilRunEnds(
  runId: string,
  events: AsyncIterable<StreamEvent>,
  log: RunLog,
): AsyncGenerator<StreamEvent, void, undefined> {
  // Only the first snapshot may come after the run's end. Later connections replay the events that were missed.
  let isFirst = true;
  for await (const event of events) {
    yield event;
    if (ENDS.has(event.type) && 'runId' in event && event.runId === runId) return;
    if (event.type !== 'session:snapshot') continue;
    if (isFirst && (await endedBefore(runId, event, log))) return;
    isFirst = false;
  }
}

/** Whether the run ended before the events of the stream. If the log has its end after their begin, it will come. */
async function endedBefore(
  runId: string,
  { data }: SnapshotEvent,
  { readPage, hasEnded, after: from }: RunLog,
): Promise<boolean> {
  if (data.activeRunId === runId || !(await hasEnded())) return false;
  for (let after = from ?? data.seq; ; ) {
    const page = await readPage({ after });
    if (page.events.some((event) => ENDS.has(event.type) && event.runId === runId)) return false;
    if (page.events.length === 0) return true;
    after = page.next;
  }
}
