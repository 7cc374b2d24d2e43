import { setTimeout as delay } from 'node:timers/promises';
import type { BatonClient, ContextMeter, Run, StreamEvent } from '../client/client.ts';
import { batonCommand } from '../platform/baton-command.ts';
import { EXIT } from './exit-codes.ts';
import { writeJson } from './remote.ts';
import { listenForInterrupt } from './terminal/interrupt.ts';
import { createPrinter, type Printer } from './terminal/printer.ts';
import { NO_PROGRESS, type Piece, showEvent } from './terminal/progress.ts';
import { bar, cost, count, MAX_ERROR_CHARS, number, oneLine, printable } from './terminal/words.ts';

type Watched = Readonly<{ sessionId: string; runId: string }>;

const ENDS: ReadonlySet<string> = new Set(['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete']);

/** The events that show a run, until the signal aborts. */
type Follow = (signal: AbortSignal) => AsyncIterable<StreamEvent>;

/**
 * Shows a run until it has ended or waits for an answer: step, text, tools, tokens, context meter. As JSON one event
 * per line, and the run last. Ctrl-C ends only the watching. Resolves with the exit code.
 */
export async function watchRun(
  client: BatonClient,
  watched: Watched,
  follow: Follow,
  isJson: boolean,
): Promise<number> {
  using interrupt = listenForInterrupt(process.stdout, process.stderr);
  const printer = createPrinter(process.stdout);
  const events = follow(interrupt.signal);
  const isOver = (event: StreamEvent) => isLast(client, event, watched);
  const tell = (text: string): void => {
    if (isJson) process.stderr.write(`${printable(text)}\n`);
    else printer.print({ kind: 'line', tone: 'bad', text });
  };
  using _unattended = watchUnattended(client, tell);
  await (isJson
    ? printEvents(events, isOver)
    : showProgress(client, { sessionId: watched.sessionId, events }, printer, isOver));
  if (interrupt.signal.aborted) {
    printer.end();
    process.stderr.write(`The run goes on: baton show ${watched.runId} --follow\n`);
    return interrupt.exitCode();
  }
  return showEnd(client, watched, isJson, printer);
}

/** Shows a session's events until Ctrl-C; as JSON one event per line. Resolves with the exit code. */
export async function watchSession(client: BatonClient, sessionId: string, isJson: boolean): Promise<number> {
  using interrupt = listenForInterrupt(process.stdout, process.stderr);
  const printer = createPrinter(process.stdout);
  const events = client.events(sessionId, { signal: interrupt.signal });
  const tellState = async (event: StreamEvent): Promise<false> => {
    if (event.type === 'session:snapshot') {
      printer.print({ kind: 'line', tone: 'dim', text: `the session is ${event.data.status}` });
    }
    const isEnd = ENDS.has(event.type) || event.type === 'run:requires-action';
    if (isEnd && 'runId' in event && event.runId !== null)
      printer.print(...showOutcome(await client.runs.get(event.runId)));
    return false;
  };
  await (isJson
    ? printEvents(events, async () => false)
    : showProgress(client, { sessionId, events }, printer, tellState));
  printer.end();
  return interrupt.exitCode();
}

/** Shows how the run has ended, or which calls it waits for: its own, or those of the run before it. */
async function showEnd(client: BatonClient, watched: Watched, isJson: boolean, printer: Printer): Promise<number> {
  const run = await client.runs.get((await blockerOf(client, watched)) ?? watched.runId);
  if (isJson) writeJson({ type: 'run', data: run });
  else printer.print(...showOutcome(run));
  if (run.status === 'requires_action') return EXIT.requiresAction;
  return run.status === 'completed' ? EXIT.done : EXIT.failed;
}

/** The run with open required actions that blocks this one: itself, or the run before it. Null: none does. */
async function blockerOf(client: BatonClient, { sessionId, runId }: Watched): Promise<string | null> {
  const session = await client.sessions.get(sessionId);
  if (session.status !== 'requires_action' || session.activeRunId === null) return null;
  if (session.activeRunId === runId) return runId;
  return (await client.runs.get(runId)).status === 'queued' ? session.activeRunId : null;
}

/**
 * Calls `act`, which lets a run go on, and shows that run. The session is followed before, so that no event is missed.
 * @param act resolves with the id of the run. `mayWait`: it may still have open calls, and then no event follows
 */
export async function watchWhatFollows(
  client: BatonClient,
  sessionId: string,
  isJson: boolean,
  act: () => Promise<Readonly<{ runId: string; mayWait: boolean }>>,
): Promise<number> {
  const stop = new AbortController();
  const events = client.events(sessionId, { signal: stop.signal });
  const follow: Follow = (signal) => {
    signal.addEventListener('abort', () => stop.abort(), { once: true });
    return events;
  };
  try {
    await events.next();
    const { runId, mayWait } = await act();
    const watched = { sessionId, runId };
    if (mayWait && (await blockerOf(client, watched)) !== null) {
      return await showEnd(client, watched, isJson, createPrinter(process.stdout));
    }
    return await watchRun(client, watched, follow, isJson);
  } finally {
    stop.abort();
  }
}

/** Whether the run has ended or waits after this event. A run behind another one waits with that. */
async function isLast(client: BatonClient, event: StreamEvent, watched: Watched): Promise<boolean> {
  const { runId } = watched;
  const isOwn = 'runId' in event && event.runId === runId;
  if (isOwn && (ENDS.has(event.type) || event.type === 'run:requires-action')) return true;
  return mayWait(event) && (await blockerOf(client, watched)) !== null;
}

/** Whether the session may now wait for a person: its own calls, or those of a child. */
function mayWait(event: StreamEvent): boolean {
  if (event.type === 'session:snapshot') return event.data.status === 'requires_action';
  return event.type === 'run:requires-action' || (event.type === 'child:requires-action' && event.data.open > 0);
}

type IsOver = (event: StreamEvent) => Promise<boolean>;

async function printEvents(events: AsyncIterable<StreamEvent>, isOver: IsOver): Promise<void> {
  for await (const event of events) {
    writeJson(event);
    if (await isOver(event)) return;
  }
}

async function showProgress(
  client: BatonClient,
  { sessionId, events }: Readonly<{ sessionId: string; events: AsyncIterable<StreamEvent> }>,
  printer: Printer,
  isOver: IsOver,
): Promise<void> {
  let progress = NO_PROGRESS;
  for await (const event of events) {
    const next = showEvent(progress, event);
    progress = next.progress;
    printer.print(...next.pieces);
    if (event.type === 'step:completed' || event.type === 'context:compressed') {
      printer.print({ kind: 'line', tone: 'dim', text: meterLine(await client.sessions.context(sessionId)) });
    }
    if (await isOver(event)) return;
  }
}

/** "context ███····· 12,345 of 120,000 tokens (10 %)", with "guessed" for an unknown window. */
export function meterLine({ used, usable, share, guessed }: ContextMeter): string {
  const meter = `context ${bar(share)} ${number(used)} of ${count(usable, 'token')} (${Math.round(share * 100)} %)`;
  return guessed ? `${meter}, guessed` : meter;
}

function showOutcome({ id, status, steps, reason, error, usage, costUsd, requiredActions }: Run): Piece[] {
  if (status === 'requires_action') {
    const calls = requiredActions.map((call): Piece => {
      const answer = call.kind === 'output' || call.kind === 'input' ? "--output 'JSON'" : 'approve (or deny)';
      return { kind: 'line', tone: 'note', text: `${batonCommand()} answer ${id} ${call.id} ${answer}` };
    });
    return [{ kind: 'heading', text: '? the run waits for an answer' }, ...calls];
  }
  const isGood = status === 'completed';
  const why = error === null ? reason : `${error.code}: ${oneLine(error.message, MAX_ERROR_CHARS)}`;
  const title = `${isGood ? '✓' : '✗'} ${status}${why === null ? '' : ` (${why})`} after ${count(steps, 'step')}`;
  const tokens = `${count(usage.inputTokens, 'token')} in, ${count(usage.outputTokens, 'token')} out`;
  const price = costUsd === 0 ? '' : `, ${cost(costUsd)}`;
  return [
    { kind: 'heading', text: title },
    { kind: 'line', tone: 'dim', text: tokens + price },
  ];
}

/** Interval of looks for a worker. A worker that is being replaced is not missed. */
const LOOK_EVERY_MS = 1_000;
/** Looks in a row without a worker before a message. */
const LOOKS = 3;

/** Tells when no worker takes steps, because runs then wait without another sign, and when one does again. */
function watchUnattended(client: Pick<BatonClient, 'readiness'>, tell: (text: string) => void): Disposable {
  const stop = new AbortController();
  let inVain = 0;
  const look = async (): Promise<void> => {
    // A service that does not answer here must not stop the command.
    const { unattended } = await client.readiness({ signal: stop.signal }).catch(() => ({ unattended: undefined }));
    if (unattended === undefined || stop.signal.aborted) return;
    const isMissing = unattended.includes('step');
    if (isMissing && ++inVain === LOOKS) {
      tell('no worker takes steps at the moment: runs wait until one is started (baton worker steps)');
    }
    if (!isMissing && inVain >= LOOKS) tell('a worker takes steps again');
    if (!isMissing) inVain = 0;
  };
  const keepLooking = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await delay(LOOK_EVERY_MS, undefined, { ref: false });
      if (!stop.signal.aborted) await look();
    }
  };
  void keepLooking();
  return { [Symbol.dispose]: () => stop.abort() };
}
