import { type Loss, wentWithCommits } from './losses.ts';
import { rawId, type Snapshot, type StoredMessage } from './snapshot.ts';

export type AcceptedMessage = Readonly<{
  sessionId: string;
  messageId: string;
  /** The run that takes it up, as the API told the sender. */
  runId: string;
  token: string;
  delivery: 'steer' | 'followup' | 'interrupt';
  /** When the accepted request was sent and answered, by `performance.now()`. */
  sentAtMs?: number;
  answeredAtMs?: number;
  /** Tokens of its earlier contents, if it was changed. */
  formerTokens?: readonly string[];
  /** Its sender changed the way of its delivery while it waited. */
  isMoved?: boolean;
  /** Its sender has taken it back. */
  isRemoved?: boolean;
  /** It was sent at the same time as others, so their order is unknown. */
  isUnordered?: boolean;
}>;

/**
 * A request to the model, as the provider got it. `answer`: the number of the model's answer. `isSummary`: it asks for
 * a summary, and does not count as showing a message to the model.
 */
export type ModelRequest = Readonly<{
  text: string;
  violations: readonly string[];
  answer?: number | undefined;
  isSummary?: boolean;
  /** By `performance.now()`. */
  startedAtMs?: number;
}>;

export type MessageFindings = Readonly<{
  /**
   * An accepted message that is neither in the inbox nor in the transcript, unless it went with lost commits; or whose run came to its end without
   * showing it to the model; or that is left in the inbox although the session's last run came to its end. Only a
   * cancel or a failure may leave messages in the inbox.
   */
  lost: readonly string[];
  /** In the inbox and in the transcript, or twice in the transcript. */
  doubled: readonly string[];
  /** Taken up before a message that was accepted earlier and delivered the same way. */
  outOfOrder: readonly string[];
  /** Sent into a run at work that began a later step without it; or taken up by another run than was promised. */
  late: readonly string[];
}>;

/**
 * Judges every accepted message, in the order in which each session accepted them.
 * @param maxSteps steps that a run may take: a run that has taken them leaves waiting messages to the next run
 * @param losses times whose commits Postgres has lost
 */
export function checkMessages(
  { messages, events, waiting, runs }: Snapshot,
  accepted: readonly AcceptedMessage[],
  requests: readonly ModelRequest[],
  maxSteps: number,
  losses: readonly Loss[] = [],
): MessageFindings {
  const heard = new Set(requests.flatMap(({ text, isSummary }) => (isSummary === true ? [] : tokensIn(text))));
  const cameToEnd = new Set(runs.filter(({ status }) => AT_END.has(status)).map(({ id }) => id));
  const completed = new Set(runs.filter(({ status }) => status === 'completed').map(({ id }) => id));
  // Runs whose answer was whole when a cancel came are completed, but leave messages waiting like cancelled runs.
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
  for (const message of accepted) {
    const { sessionId, messageId, token, isRemoved } = message;
    if (isRemoved === true) continue;
    const found = places.get(token) ?? [];
    const isWaiting = waiting.has(rawId(messageId));
    if (found.length + (isWaiting ? 1 : 0) > 1) doubled.push(token);
    const [place] = found;
    if (place === undefined) {
      const isLeft = isWaiting ? AT_END.has(lastStatus.get(rawId(sessionId))) : !wentWithCommits(message, losses);
      if (isLeft) lost.push(token);
      continue;
    }
    if (place.runId !== null && cameToEnd.has(place.runId) && !heard.has(token)) lost.push(token);
  }
  return { lost, doubled, outOfOrder: misplaced(accepted, places), late };
}

/** Messages that were taken up before one that their sender had sent earlier in the same way. */
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

/** Statuses of a run that ended by itself or at its limit. */
export const AT_END: ReadonlySet<string | undefined> = new Set(['completed', 'incomplete']);

/** Those of the runs that might have taken another step. */
function withStepsLeft(runs: ReadonlySet<string>, messages: readonly StoredMessage[], maxSteps: number): Set<string> {
  const answers = messages.filter(({ role, superseded }) => role === 'assistant' && !superseded);
  const steps = Map.groupBy(answers, ({ runId }) => runId);
  return new Set([...runs].filter((id) => (steps.get(id)?.length ?? 0) < maxSteps));
}

/** The places of each message's token in the transcripts. */
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
 * Messages that another run took up than their sender was told. A cancelled or failed run breaks no promise: it leaves
 * waiting messages to the next run.
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
 * Steers without which a step of their run began, although the log shows the steer first. Exempt are runs that were
 * told to stop before that step, and steps of a final answer, which take up nothing more.
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

/** Applies an event to the waiting steers, each with its run. */
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
  // A message that was sent to a run that is being cancelled is for the run after it.
  if (type === 'run:cancelling' || type === 'run:cancelled') waiting.clear();
}

/** Whether the event begins a step that takes up waiting messages: a final answer does not. */
const beginsStep = ({ type, data }: Snapshot['events'][number]): boolean =>
  type === 'step:started' && data['finalAnswerFor'] === undefined;

const TOKEN = /message-\d+-\d+/g;

export const tokensIn = (text: string): string[] => text.match(TOKEN) ?? [];

export const textOf = ({ parts }: StoredMessage): string => parts.map(({ content }) => content.text ?? '').join('\n');
