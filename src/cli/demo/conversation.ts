import type { BatonClient, RunChild } from '../../client/client.ts';
import type { SentMessage } from '../../client/contract.ts';
import type { StreamEvent } from '../../client/session-events.ts';
import type { Printer } from '../terminal/printer.ts';
import { NO_PROGRESS, showEvent } from '../terminal/progress.ts';
import type { Approver } from './approvals.ts';
import { type Ending, isOver, NOTHING_YET, type Tally, tallyEvent } from './tally.ts';
import { createTeamWatch } from './team-watch.ts';

/** The step during which the second message is sent. */
const SEND_DURING_STEP = 2;
/** Longest wait of an interrupted demo for its run to stop. */
const CANCEL_WAIT_MS = 3_000;

export type Talk = Readonly<{
  api: BatonClient;
  printer: Printer;
  agent: string;
  task: string;
  /** Message that is sent while the agent works. Null: none. */
  message: string | null;
  /** The agent gives tasks to other agents, which are shown as well. */
  isTeam: boolean;
  approve: Approver;
  /** Aborted when the person stops the demo. The run is then cancelled. */
  signal: AbortSignal;
}>;

export type TalkOutcome = Readonly<{
  sessionId: string;
  tally: Tally;
  ended: Ending;
  /** Messages that the run took up while it worked. */
  injected: number;
  /** Children to which the run gave tasks; null: the demo is not about a team. */
  team: readonly RunChild[] | null;
  durationMs: number;
}>;

/**
 * Gives the agent its task, follows the session and sends the second message, until the last run has ended.
 * @throws BatonError of the client
 */
export async function converse(talk: Talk): Promise<TalkOutcome> {
  const { api, printer, signal } = talk;
  const session = await api.sessions.create({ agent: talk.agent, title: 'Demo' });
  const startedAtMs = performance.now();
  const task = await api.send(session.id, talk.task);
  printer.print(
    { kind: 'line', tone: 'plain', text: `session    ${session.id}` },
    { kind: 'heading', text: 'You' },
    { kind: 'stream', tone: 'plain', text: talk.task },
  );
  let tally = NOTHING_YET;
  let progress = NO_PROGRESS;
  let sent: SentMessage | null = null;
  using team = talk.isTeam ? createTeamWatch(talk) : null;
  try {
    for await (const event of api.events(session.id, { after: 0, signal })) {
      if ((await team?.see(event)) !== true) {
        const next = showEvent(progress, event);
        progress = next.progress;
        printer.print(...next.pieces);
      }
      tally = tallyEvent(tally, event);
      if (sent === null && talk.message !== null && isTimeToSend(event)) {
        sent = await interject(talk, session.id, talk.message);
      }
      if (event.type === 'run:requires-action') await answerCalls(talk, event.data);
      if (event.type === 'child:requires-action') await answerCalls(talk, { ...event.data, runId: task.runId });
      if (isOver(tally, sent?.messageId ?? null)) break;
    }
    if (signal.aborted) tally = await cancel(talk, sent ?? task, tally);
  } finally {
    printer.end();
  }
  const durationMs = Math.round(performance.now() - startedAtMs);
  const injected = tally.takenUp.filter((each) => each.messageId === sent?.messageId && each.runId === task.runId);
  const { ended } = tally;
  if (ended === null) throw new Error('the event stream ended before the run');
  const { children = [] } = team === null ? {} : await api.runs.get(ended.runId);
  return {
    ...{ sessionId: session.id, tally, ended, injected: injected.length, durationMs },
    team: team === null ? null : children,
  };
}

type Asked = Extract<StreamEvent, { type: 'run:requires-action' }>['data'];

const isTimeToSend = (event: StreamEvent): boolean =>
  event.type === 'step:started' && event.data.step >= SEND_DURING_STEP;

async function interject({ api, printer }: Talk, sessionId: string, message: string): Promise<SentMessage> {
  const accepted = await api.send(sessionId, message);
  const answer = accepted.queued
    ? `queued at position ${accepted.position}: the agent gets it with its next step`
    : 'the run has just ended: the message starts another one';
  printer.print(
    { kind: 'line', tone: 'note', text: `✉ You, while the agent works: ${message}` },
    { kind: 'line', tone: 'note', text: `  ${answer}` },
  );
  return accepted;
}

async function answerCalls({ api, printer, approve, signal }: Talk, { runId, calls }: Asked): Promise<void> {
  printer.end();
  for (const call of calls) {
    const decision = await approve(call, signal).catch((error: unknown) => {
      if (signal.aborted) return null;
      throw error;
    });
    if (decision === null) return;
    const { answer, says } = decision;
    printer.print({ kind: 'line', tone: 'note', text: `! ${says}` });
    await api.runs.answer(runId, call.id, answer);
  }
}

/** Without the cancel, the next process that opens the database would continue the run. */
async function cancel({ api, printer }: Talk, { runId }: SentMessage, tally: Tally): Promise<Tally> {
  printer.end();
  printer.print({ kind: 'line', tone: 'bad', text: 'Stopping: the run is being cancelled.' });
  const stop = (id: string) => api.runs.cancel(id, { waitMs: CANCEL_WAIT_MS }).catch(() => null);
  const run = await stop(runId);
  // The run's cancel reaches its children by itself. These calls only wait until they have stopped.
  await Promise.all((run?.children ?? []).map((child) => child.runId !== null && stop(child.runId)));
  const status = run?.status === 'completed' ? 'completed' : 'cancelled';
  const reason =
    run === null || run.status === 'cancelling' ? 'interrupted; the run has not confirmed it' : 'interrupted';
  return { ...tally, ended: { runId, status, reason } };
}
