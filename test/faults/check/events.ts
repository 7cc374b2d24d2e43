import { rawId, type Snapshot } from './snapshot.ts';

export type EventFindings = Readonly<{
  /** Numbers that are missing in the log, or that a reader missed or got twice. */
  gaps: readonly string[];
  /** Events after the end of their run or before its start, or steps that go backwards. */
  outOfOrder: readonly string[];
  /** Readers that keep other events under the numbers of those in the log. */
  unreset: readonly string[];
}>;

/** An event as a reader got it. */
export type ReadEvent = Readonly<{ seq: number; type: string; createdAt?: string }>;

const ENDS = ['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete'];
const OF_WORK = ['step:started', 'step:completed', 'llm:response', 'llm:tool-call', 'llm:tool-result'];

/** @param read events that each reader got, by the public id of its session */
export function checkEvents(
  { sessions, events, messages }: Snapshot,
  read: ReadonlyMap<string, readonly ReadEvent[]>,
): EventFindings {
  const gaps: string[] = [];
  const unreset: string[] = [];
  const outOfOrder: string[] = [];
  const bySession = Map.groupBy(events, ({ sessionId }) => sessionId);
  for (const { id, eventSeq, messageSeq } of sessions) {
    const own = bySession.get(id) ?? [];
    gaps.push(
      ...unlikeCount(
        `log of ${id}`,
        own.map(({ seq }) => seq),
        eventSeq,
      ),
    );
    const seqs = messages.filter(({ sessionId }) => sessionId === id).map(({ seq }) => seq);
    gaps.push(...unlikeCount(`transcript of ${id}`, seqs, messageSeq));
    outOfOrder.push(...misplaced(own));
  }
  for (const [publicId, got] of read) {
    const id = rawId(publicId);
    const own = bySession.get(id) ?? [];
    gaps.push(
      ...unlikeCount(
        `reader of ${id}`,
        got.map(({ seq }) => seq),
        own.length,
      ),
    );
    const unlike = got.find(({ seq, type }) => own[seq - 1]?.type !== type);
    if (unlike !== undefined) gaps.push(`reader of ${id}: ${unlike.type} as number ${unlike.seq}`);
    const others = got.filter(({ seq, createdAt }) => isAnother(createdAt, own[seq - 1]?.createdAt)).length;
    if (others > 0) unreset.push(`reader of ${id}: ${others} of ${got.length} events are others in the log`);
  }
  return { gaps, outOfOrder, unreset };
}

/** Postgres counts microseconds. */
const CUT_OFF_MS = 1;

const isAnother = (createdAt: string | undefined, stored: string | undefined): boolean =>
  createdAt !== undefined &&
  (stored === undefined || Math.abs(Date.parse(createdAt) - Date.parse(stored)) > CUT_OFF_MS);

/** Describes how the numbers differ from 1, 2, 3 … up to `count`. */
function unlikeCount(what: string, seqs: readonly number[], count: number): string[] {
  const wrong = seqs.flatMap((seq, index) => (seq === index + 1 ? [] : [`${what}: ${seq} in place ${index + 1}`]));
  return seqs.length === count ? wrong.slice(0, 1) : [`${what}: ${seqs.length} of ${count}`];
}

type Course = { started: boolean; ended: boolean; step: number };

function misplaced(events: Snapshot['events']): string[] {
  const courses = new Map<string, Course>();
  return events.flatMap((event) => {
    const { runId, seq, sessionId } = event;
    if (runId === null) return [];
    const course = courses.get(runId) ?? { started: false, ended: false, step: 0 };
    courses.set(runId, course);
    const problem = follow(course, event);
    return problem === null ? [] : [`${problem} (${seq} of ${sessionId})`];
  });
}

/** Moves a run on by one of its events. @returns the problem with the event, or null */
function follow(course: Course, { type, data }: Snapshot['events'][number]): string | null {
  const { started, ended, step } = course;
  const next = type === 'step:started' ? Number(data['step']) : step;
  course.started ||= type === 'run:started';
  course.ended ||= ENDS.includes(type);
  course.step = next;
  if (OF_WORK.includes(type) && (!started || ended)) return `${type} outside of its run`;
  if (type === 'run:started' && started) return 'the run starts twice';
  if (ENDS.includes(type) && ended) return 'the run ends twice';
  return next < step ? `the run goes back from step ${step} to ${next}` : null;
}
