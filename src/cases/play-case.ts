import type { BatonClient, Json, Message, RequiredAction, Run } from '../client/client.ts';
import { afterAccepted } from '../commands/after-commit.ts';
import { serviceActor } from '../commands/audit.ts';
import { type SentMessage, sendMessageIn } from '../commands/send-message.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import { isTerminalRun } from '../domain/run/run.ts';
import { type Case, type CaseUser, stepsOf } from './case-file.ts';
import type { CaseService } from './case-service.ts';
import { createPlayer, type Fork, type Player } from './player.ts';

/** A run that makes no progress for so long hangs. */
const STALLED_AFTER_MS = 60_000;

export type Played = Readonly<{ sessionId: string; player: Player; end: Run | null; answers: readonly Message[] }>;

/**
 * Plays a case in a session of its own: sends its messages when they came, and answers what the run waits for as recorded.
 * @throws BatonError `timeout` for a run that hangs; the errors of the service
 */
export async function playCase(service: CaseService, recorded: Case, fork: Fork | null = null): Promise<Played> {
  const { client } = service;
  const model = fork?.from === 1 ? fork.model : stepsOf(recorded)[0]?.model;
  const overrides = { ...recorded.overrides, ...(model !== undefined && { model }) };
  service.offer(recorded.toolLists.flat());
  const { id: sessionId } = await client.sessions.create({ agent: recorded.agent, overrides });
  const stage = {
    send: async (message: CaseUser) => void (await send(service, sessionId, message)),
    switchModel: async (next: string) => void (await client.sessions.switchAgent(sessionId, { model: next })),
  };
  const player = createPlayer(recorded, stage, fork);
  service.play(sessionId, player);
  let end: Run | null = null;
  for (const message of startsOf(recorded)) {
    const runId = await send(service, sessionId, message);
    end = await untilEnd(client, runId, player, recorded);
    if (!isTerminalRun(end.status)) break;
    await untilIdle(client, sessionId, player, recorded);
  }
  return { sessionId, player, end, answers: await readAnswers(client, sessionId) };
}

/** The messages that start a run: those before the first step, and those between steps of different runs. */
function startsOf({ entries }: Case): CaseUser[] {
  let last: number | null = null;
  return entries.flatMap((entry, index) => {
    if (entry.type === 'step') last = entry.run;
    if (entry.type !== 'user') return [];
    const next = entries.slice(index + 1).find(({ type }) => type === 'step');
    return next?.type === 'step' && next.run !== last ? [entry] : [];
  });
}

/** Stores the messages before a worker can take up the first of them, so that one step takes up all. */
async function send({ deps, tenantId }: CaseService, publicId: string, { messages }: CaseUser): Promise<string> {
  const sessionId = parseId('session', publicId) ?? publicId;
  const accepted = await deps.db.transaction().execute(async (tx) => {
    const all: SentMessage[] = [];
    for (const content of messages) {
      const place = { actor: serviceActor(tenantId), sessionId, messageId: deps.newId() };
      all.push(await sendMessageIn(tx, deps, { ...place, content, delivery: 'steer' }));
    }
    return all;
  });
  for (const message of accepted) await afterAccepted(deps, sessionId, message);
  return formatId('run', accepted[0]?.runId ?? '');
}

async function untilEnd(client: BatonClient, runId: string, player: Player, recorded: Case): Promise<Run> {
  for (let progress = ''; ; ) {
    const run = await client.runs.wait(runId, { timeoutMs: STALLED_AFTER_MS });
    if (isTerminalRun(run.status)) return run;
    const isRecordedEnd = recorded.end.status === run.status && player.answeredCount() === stepsOf(recorded).length;
    if (run.status === 'requires_action' && isRecordedEnd) return run;
    const now = `${run.steps} ${run.requiredActions.map(({ id }) => id).join(' ')} ${player.answeredCount()}`;
    if (now === progress) throw new BatonError('timeout', `run ${runId} is ${run.status} and makes no progress`);
    progress = now;
    for (const action of run.requiredActions) await answer(client, run, action, player);
  }
}

/** As the person or client answered when the case was recorded. */
async function answer(client: BatonClient, run: Run, action: RequiredAction, player: Player): Promise<void> {
  const wanted = { toolName: action.toolName, input: action.args };
  // The call of an approved tool comes once more, when it runs.
  const call = player.call(wanted, action.kind === 'approval');
  const { output } = call ?? {};
  if (action.kind === 'approval') {
    const decision =
      output?.type === 'execution-denied'
        ? ({ decision: 'deny', ...(output.reason !== undefined && { reason: output.reason }) } as const)
        : ({ decision: 'approve' } as const);
    await client.runs.answer(run.id, action.id, decision);
    return;
  }
  if (output === undefined || output.type === 'execution-denied') {
    const missing = `The case has no result for this call of ${action.toolName}.`;
    await client.runs.answer(run.id, action.id, { output: missing, isError: true });
    return;
  }
  const isError = output.type === 'error-text';
  const value = output.type === 'content' ? { type: 'content', value: output.value } : output.value;
  await client.runs.answer(run.id, action.id, { output: value as Json, isError });
}

/** A maintenance run may follow. */
async function untilIdle(client: BatonClient, sessionId: string, player: Player, recorded: Case): Promise<void> {
  for (;;) {
    const { activeRunId } = await client.sessions.get(sessionId);
    if (activeRunId === null) return;
    const run = await untilEnd(client, activeRunId, player, recorded);
    if (!isTerminalRun(run.status)) return;
  }
}

async function readAnswers(client: BatonClient, sessionId: string): Promise<Message[]> {
  const answers: Message[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: Awaited<ReturnType<BatonClient['messages']>> = await client.messages(sessionId, { after, limit: 200 });
    answers.push(...page.messages.filter(({ role, isSummary }) => role === 'assistant' && !isSummary));
    after = page.next;
  }
  return answers;
}
