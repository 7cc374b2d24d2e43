import type { BatonClient, ContextMeter, Run, StreamEvent } from '../client/client.ts';
import { EXIT } from './exit-codes.ts';
import { writeJson } from './remote.ts';
import { listenForInterrupt } from './terminal/interrupt.ts';
import { createPrinter, type Printer } from './terminal/printer.ts';
import { NO_PROGRESS, type Piece, showEvent } from './terminal/progress.ts';
import { bar, count, number, oneLine } from './terminal/words.ts';

type Watched = Readonly<{ sessionId: string; runId: string }>;

const ENDS: ReadonlySet<string> = new Set(['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete']);

/** The events that show a run, until the signal aborts. */
type Follow = (signal: AbortSignal) => AsyncIterable<StreamEvent>;

/**
 * Shows a run until it has ended or waits for an answer: step, text, tools, tokens, context meter. Ctrl-C ends the
 * watching, not the run. As JSON it is one event a line, and the run last. Resolves with the exit code.
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
  await (isJson ? printEvents(watched, events) : showProgress(client, watched, events, printer));
  if (interrupt.signal.aborted) {
    printer.end();
    process.stderr.write(`The run goes on: baton show ${watched.runId} --follow\n`);
    return interrupt.exitCode();
  }
  const run = await client.runs.get(watched.runId);
  if (isJson) writeJson({ type: 'run', data: run });
  else printer.print(...showOutcome(run));
  if (run.status === 'requires_action') return EXIT.requiresAction;
  return run.status === 'completed' ? EXIT.done : EXIT.failed;
}

/**
 * Does something that makes a run go on, and shows that run. The session is followed before, so that nothing is missed.
 * @param act resolves with the id of the run
 */
export async function watchWhatFollows(
  client: BatonClient,
  sessionId: string,
  isJson: boolean,
  act: () => Promise<string>,
): Promise<number> {
  const stop = new AbortController();
  const events = client.events(sessionId, { signal: stop.signal });
  const follow: Follow = (signal) => {
    signal.addEventListener('abort', () => stop.abort(), { once: true });
    return events;
  };
  try {
    await events.next();
    return await watchRun(client, { sessionId, runId: await act() }, follow, isJson);
  } finally {
    stop.abort();
  }
}

/** Whether a run has ended or waits, by this event. */
function isLast(event: StreamEvent, runId: string): boolean {
  if (event.type === 'session:snapshot') {
    return event.data.activeRunId === runId && event.data.status === 'requires_action';
  }
  if (!('runId' in event) || event.runId !== runId) return false;
  return ENDS.has(event.type) || event.type === 'run:requires-action';
}

async function printEvents({ runId }: Watched, events: AsyncIterable<StreamEvent>): Promise<void> {
  for await (const event of events) {
    writeJson(event);
    if (isLast(event, runId)) return;
  }
}

async function showProgress(
  client: BatonClient,
  { sessionId, runId }: Watched,
  events: AsyncIterable<StreamEvent>,
  printer: Printer,
): Promise<void> {
  let progress = NO_PROGRESS;
  for await (const event of events) {
    const shown = showEvent(progress, event);
    progress = shown.progress;
    printer.print(...shown.pieces);
    if (event.type === 'step:completed' || event.type === 'context:compressed') {
      printer.print({ kind: 'line', tone: 'dim', text: meterLine(await client.sessions.context(sessionId)) });
    }
    if (isLast(event, runId)) return;
  }
}

/** "context ███····· 12,345 of 120,000 tokens (10 %)" */
export function meterLine({ used, usable, share }: ContextMeter): string {
  return `context ${bar(share)} ${number(used)} of ${count(usable, 'token')} (${Math.round(share * 100)} %)`;
}

function showOutcome({ id, status, steps, reason, error, usage, costUsd, requiredActions }: Run): Piece[] {
  if (status === 'requires_action') {
    const calls = requiredActions.map((call): Piece => {
      const answer = call.kind === 'output' ? "--output 'JSON'" : 'approve (or deny)';
      return { kind: 'line', tone: 'note', text: `baton answer ${id} ${call.id} ${answer}` };
    });
    return [{ kind: 'heading', text: '? the run waits for an answer' }, ...calls];
  }
  const isGood = status === 'completed';
  const why = error === null ? reason : `${error.code}: ${oneLine(error.message, 400)}`;
  const title = `${isGood ? '✓' : '✗'} ${status}${why === null ? '' : ` (${why})`} after ${count(steps, 'step')}`;
  const tokens = `${count(usage.inputTokens, 'token')} in, ${count(usage.outputTokens, 'token')} out`;
  const cost = costUsd > 0 ? `, ${costUsd.toFixed(4)} USD` : '';
  return [
    { kind: 'heading', text: title },
    { kind: 'line', tone: 'dim', text: tokens + cost },
  ];
}
