import { rawId, type Snapshot, type StoredMessage } from './snapshot.ts';

export type AcceptedMessage = Readonly<{
  sessionId: string;
  messageId: string;
  /** That takes it up, as its sender was told. */
  runId: string;
  token: string;
  delivery: 'steer' | 'followup' | 'interrupt';
  /** What it said before it was changed. */
  formerTokens?: readonly string[];
  /** Its sender had it delivered in another way, as it waited. */
  isMoved?: boolean;
  /** Its sender has taken it back. */
  isRemoved?: boolean;
  /** It was sent beside others: nobody knows which of them came first. */
  isUnordered?: boolean;
}>;

/**
 * A request to the model, as the provider got it. `answer`: the number of what it was answered with. `isSummary`: it
 * asks for a summary, and shows a model nothing.
 */
export type ModelRequest = Readonly<{
  text: string;
  violations: readonly string[];
  answer?: number | undefined;
  isSummary?: boolean;
}>;

export type MessageFindings = Readonly<{
  /**
   * Accepted, but neither in the inbox nor in the transcript; or taken up by a run that came to its end and whose
   * model never saw it; or left in the inbox although the session's last run came to its end: only a cancel or a
   * failure leaves something there.
   */
  lost: readonly string[];
  /** In both, or twice in the transcript. */
  doubled: readonly string[];
  /** Taken up before one that was accepted earlier and delivered the same way. */
  outOfOrder: readonly string[];
  /** Sent into a run at work, and a step began after that without it; or taken up by another run than was promised. */
  late: readonly string[];
}>;

/**
 * What became of every message that was accepted, in the order in which each session accepted them.
 * @param maxSteps that a run may take: one that has taken them leaves what waits to the next one
 */
export function checkMessages(
  { messages, events, waiting, runs }: Snapshot,
  accepted: readonly AcceptedMessage[],
  requests: readonly ModelRequest[],
  maxSteps: number,
): MessageFindings {
  const heard = new Set(requests.flatMap(({ text, isSummary }) => (isSummary === true ? [] : tokensIn(text))));
  const cameToEnd = new Set(runs.filter(({ status }) => AT_END.has(status)).map(({ id }) => id));
  const completed = new Set(runs.filter(({ status }) => status === 'completed').map(({ id }) => id));
  // Whose answer was whole when a cancel came: it is completed, and leaves what waits as a cancelled one does.
  const stopped = new Set(events.flatMap(({ runId, data }) => (data['lateCancel'] === true ? [runId] : [])));
  const lastStatus = new Map(
    runs.flatMap(({ id, sessionId, kind, status }) =>
      kind === 'task' ? [[sessionId, stopped.has(id) ? 'cancelled' : status]] : [],
    ),
  );
  const places = placesOf(messages);
  const lost: string[] = [];
  const doubled: string[] = [];
  const free = withStepsLeft(completed, messages, maxSteps);
  const late = [...lateSteers(events, accepted), ...brokenPromises(accepted, places, free.difference(stopped))];
  for (const { sessionId, messageId, token, isRemoved } of accepted) {
    if (isRemoved === true) continue;
    const found = places.get(token) ?? [];
    const isWaiting = waiting.has(rawId(messageId));
    if (found.length + (isWaiting ? 1 : 0) > 1) doubled.push(token);
    const [place] = found;
    if (place === undefined) {
      if (!isWaiting || AT_END.has(lastStatus.get(rawId(sessionId)))) lost.push(token);
      continue;
    }
    if (place.runId !== null && cameToEnd.has(place.runId) && !heard.has(token)) lost.push(token);
  }
  return { lost, doubled, outOfOrder: misplaced(accepted, places), late };
}

/** What was taken up before something that its sender had sent earlier in the same way. */
function misplaced(accepted: readonly AcceptedMessage[], places: ReadonlyMap<string, readonly Place[]>): string[] {
  const last = new Map<string, number>();
  return accepted.flatMap(({ sessionId, token, delivery, isRemoved, isMoved, isUnordered }) => {
    const [place] = places.get(token) ?? [];
    if (place === undefined || isRemoved === true || isMoved === true || isUnordered === true) return [];
    const lane = `${sessionId} ${delivery}`;
    const before = last.get(lane) ?? -1;
    last.set(lane, Math.max(place.position, before));
    return place.position < before ? [token] : [];
  });
}

/** Of a run that ended by itself or at its limit. */
export const AT_END: ReadonlySet<string | undefined> = new Set(['completed', 'incomplete']);

/** Those of the runs that might have gone on. */
function withStepsLeft(runs: ReadonlySet<string>, messages: readonly StoredMessage[], maxSteps: number): Set<string> {
  const answers = messages.filter(({ role, superseded }) => role === 'assistant' && !superseded);
  const steps = Map.groupBy(answers, ({ runId }) => runId);
  return new Set([...runs].filter((id) => (steps.get(id)?.length ?? 0) < maxSteps));
}

/** Where in the transcripts each message's token stands. */
export function placesOf(messages: readonly StoredMessage[]): ReadonlyMap<string, readonly Place[]> {
  const places = new Map<string, Place[]>();
  messages.forEach((message, index) => {
    if (message.role !== 'user' || message.isSummary) return;
    tokensIn(textOf(message)).forEach((token, within) => {
      const found = places.get(token) ?? [];
      found.push({ position: index * 1_000 + within, runId: message.runId });
      places.set(token, found);
    });
  });
  return places;
}

/**
 * What another run took up than its sender was told. A run that was cancelled or failed leaves what waits to the next.
 */
function brokenPromises(
  accepted: readonly AcceptedMessage[],
  places: ReadonlyMap<string, readonly Place[]>,
  completed: ReadonlySet<string>,
): string[] {
  return accepted.flatMap(({ token, runId, delivery, isMoved, isRemoved }) => {
    if (isMoved === true || isRemoved === true) return [];
    const [place] = places.get(token) ?? [];
    const isElsewhere = place !== undefined && completed.has(rawId(runId)) && place.runId !== rawId(runId);
    return isElsewhere ? [`${token}, a ${delivery}, was promised run ${rawId(runId)} and is of ${place.runId}`] : [];
  });
}

type Place = Readonly<{ position: number; runId: string | null }>;

/**
 * By the order of the log: a step that began after a steer was queued for its run has the steer, unless the run was
 * told to stop before it could, or the step is its final answer, which hears nothing more.
 */
function lateSteers(events: Snapshot['events'], accepted: readonly AcceptedMessage[]): string[] {
  const sent = new Map(accepted.map((each) => [each.messageId, each]));
  const late: string[] = [];
  const queued = new Map<string, Map<string, string | null>>();
  for (const event of events) {
    const { sessionId, runId } = event;
    const waiting = queued.get(sessionId) ?? new Map<string, string | null>();
    queued.set(sessionId, waiting);
    changeSteers(waiting, event, (id) => sent.get(id)?.delivery === 'steer');
    if (!beginsStep(event)) continue;
    for (const [steer, ofRun] of waiting) {
      const token = sent.get(steer)?.token;
      if (token !== undefined && ofRun === runId) late.push(token);
      waiting.delete(steer);
    }
  }
  return late;
}

/** What an event makes of the steers that wait, each with its run. */
function changeSteers(
  waiting: Map<string, string | null>,
  { type, runId, data }: Snapshot['events'][number],
  isSteer: (id: string) => boolean,
): void {
  const id = String(data['id']);
  if (type === 'message:queued' && isSteer(id)) waiting.set(id, runId);
  if (type === 'message:changed') {
    if (data['delivery'] === 'steer' && runId !== null) waiting.set(id, runId);
    else waiting.delete(id);
  }
  if (type === 'message:dequeued' || type === 'message:removed') {
    for (const gone of data['ids'] as string[]) waiting.delete(gone);
  }
  // What was sent to a run that is being cancelled is for the one after it.
  if (type === 'run:cancelling' || type === 'run:cancelled') waiting.clear();
}

/** Of a step that takes up what waits: a final answer does not. */
const beginsStep = ({ type, data }: Snapshot['events'][number]): boolean =>
  type === 'step:started' && data['finalAnswerFor'] === undefined;

const TOKEN = /message-\d+-\d+/g;

export const tokensIn = (text: string): string[] => text.match(TOKEN) ?? [];

export const textOf = ({ parts }: StoredMessage): string => parts.map(({ content }) => content.text ?? '').join('\n');
