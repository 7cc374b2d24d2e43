import { sql } from 'kysely';
import { formatId } from '../../domain/ids.ts';
import { callResultEvent } from '../../domain/run/call-events.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { type CallQuestion, callQuestionSchema } from '../../domain/transcript/call-question.ts';
import { type Json, jsonSchema } from '../../domain/transcript/message.ts';
import { outputText } from '../../domain/transcript/output-text.ts';
import {
  type ActionKind,
  type CallAnswer,
  type CallResolution,
  closeCall,
  isAsked,
  type PlacedCall,
  type RecordedAnswer,
  type RequiredAction,
  recordedAnswerSchema,
  toRequiredAction,
} from '../../domain/transcript/required-action.ts';
import { isSettledCall, TOOL_CALL_STATES } from '../../domain/transcript/tool-call.ts';
import { MAX_TOOL_OUTPUT_CHARS } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import type { MessageKey } from './message-key.ts';
import { toPart } from './messages.ts';

const UNSETTLED = TOOL_CALL_STATES.filter((state) => !isSettledCall(state));

export type OpenCall = PlacedCall &
  MessageKey &
  Readonly<{
    runId: string;
    requiredAction: ActionKind | null;
    answer: RecordedAnswer | null;
    /** What its tool asks for. */
    question: CallQuestion | null;
    /** What it has begun outside of its worker. */
    outsideWork: Json | null;
  }>;

/** What `closeCall` has to know of a call. */
export const closingOf = ({ part, requiredAction }: OpenCall) => ({ state: part.state, kind: requiredAction });

/** The calls of these runs without an outcome, in the order of their steps. */
export async function readOpenCalls(db: Db, runIds: readonly string[]): Promise<OpenCall[]> {
  if (runIds.length === 0) return [];
  const rows = await db
    .selectFrom('messages')
    .innerJoin('parts', (of) =>
      of.onRef('parts.session_id', '=', 'messages.session_id').onRef('parts.message_id', '=', 'messages.id'),
    )
    .select([
      'messages.run_id as runId',
      'messages.session_id as sessionId',
      'parts.message_id as messageId',
      'idx',
      'content',
      'state',
      'required_action as requiredAction',
      'answer',
      'question',
      'outside_work as outsideWork',
    ])
    .where('messages.run_id', 'in', runIds)
    .where('parts.state', 'in', UNSETTLED)
    .orderBy('messages.seq')
    .orderBy('idx')
    .execute();
  return rows.flatMap(
    ({ runId, messageId, idx: index, content, state, answer, question, outsideWork, ...call }): OpenCall[] => {
      const part = toPart(content, state);
      if (part.type !== 'tool' || runId === null) return [];
      return [
        {
          ...call,
          runId,
          messageId,
          index,
          part,
          answer: recordedAnswerSchema.nullable().parse(answer),
          question: callQuestionSchema.nullable().parse(question),
          outsideWork: jsonSchema.nullable().parse(outsideWork),
        },
      ];
    },
  );
}

export type OpenCounts = Readonly<{ open: number; openForChildren: number; isOwnForChild: boolean }>;

/**
 * How many calls of a run wait for an answer, and how many of them for children; and whether this one is of those. A
 * model may ask for hundreds of children at once, so their calls are not read for each result.
 */
export async function countOpenCalls(
  tx: Tx,
  runId: string,
  own: Readonly<{ messageId: string; index: number }>,
): Promise<OpenCounts> {
  const { rows } = await sql<OpenCounts>`
    select count(*)::int as open, (count(*) filter (where required_action = 'child'))::int as "openForChildren",
      coalesce(bool_or(required_action = 'child' and message_id = ${own.messageId} and idx = ${own.index}), false)
        as "isOwnForChild"
    from messages join parts on parts.session_id = messages.session_id and parts.message_id = messages.id
    where messages.run_id = ${runId} and parts.state = any(${[...UNSETTLED]}::text[]) and required_action is not null
      and answer is null`.execute(tx);
  return rows[0] ?? { open: 0, openForChildren: 0, isOwnForChild: false };
}

/** Whether a call of the run without an outcome has begun work elsewhere, which a worker has to stop. */
export async function hasWorkOutside(tx: Tx, runId: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from messages join parts on parts.session_id = messages.session_id and parts.message_id = messages.id
    where messages.run_id = ${runId} and parts.state = any(${[...UNSETTLED]}::text[]) and outside_work is not null
    limit 1`.execute(tx);
  return rows.length > 0;
}

/** Answers to calls of these messages of a session that have no outcome yet. */
export async function readCallAnswers(
  db: Db,
  sessionId: string,
  messageIds: readonly string[],
): Promise<readonly Readonly<{ messageId: string; index: number; given: CallAnswer }>[]> {
  if (messageIds.length === 0) return [];
  const rows = await db
    .selectFrom('parts')
    .select(['message_id as messageId', 'idx as index', 'answer'])
    .where('session_id', '=', sessionId)
    .where('message_id', 'in', messageIds)
    .where('state', 'in', UNSETTLED)
    .where('answer', 'is not', null)
    .execute();
  return rows.map(({ answer, ...place }) => ({ ...place, given: recordedAnswerSchema.parse(answer).given }));
}

/** Whether the run waits for an answer to the call. */
export const isUnanswered = (call: OpenCall): call is OpenCall & { requiredAction: ActionKind } =>
  call.requiredAction !== null && call.answer === null;

/** The runs below a root of which calls wait for a person or a client, by the run of the root. */
async function readAskingBelow(db: Db, rootRunIds: readonly string[]): Promise<readonly Below[]> {
  const { rows } = await sql<Below>`
    select r.id as "rootRunId", below."runId", below."sessionId", below.agent
    from runs r cross join lateral (
      select b.id as "runId", b.created_at, s.id as "sessionId", s.agent_name as agent
      from sessions s join runs b on b.id = s.active_run_id and b.status = 'requires_action' and not b.is_delegating
      where s.root_session_id = r.session_id order by b.created_at, b.id limit ${MAX_ASKING_BELOW}
    ) as below
    where r.id = any(${[...rootRunIds]}::uuid[]) order by below.created_at, below."runId"`.execute(db);
  return rows;
}

type Below = Readonly<{ rootRunId: string; runId: string; sessionId: string; agent: string }>;

/** Runs whose calls are shown at one root. `GET /v1/inbox` has all. */
const MAX_ASKING_BELOW = 100;

/** The required actions of runs with those of the runs below them, which are answered at the root as well. */
export async function readActionsOfTrees(
  db: Db,
  runs: readonly Readonly<{ id: string; status: string }>[],
): Promise<ReadonlyMap<string, readonly RequiredAction[]>> {
  const waiting = runs.filter(({ status }) => status === 'requires_action').map(({ id }) => id);
  if (waiting.length === 0) return new Map();
  const below = await readAskingBelow(db, waiting);
  const asking = [...waiting, ...below.map(({ runId }) => runId)].map((id) => ({ id, status: 'requires_action' }));
  const actions = await readRequiredActions(db, asking);
  const ofChild = ({ runId, sessionId, agent }: Below): RequiredAction[] =>
    (actions.get(runId) ?? []).map((action) => ({
      ...action,
      child: { sessionId: formatId('session', sessionId), runId: formatId('run', runId), agent },
    }));
  return new Map(
    waiting.map((id) => [
      id,
      [...(actions.get(id) ?? []), ...below.filter(({ rootRunId }) => rootRunId === id).flatMap(ofChild)],
    ]),
  );
}

/** The required actions of each run. A run that does not wait has no entry. */
export async function readRequiredActions(
  db: Db,
  runs: readonly Readonly<{ id: string; status: string }>[],
): Promise<ReadonlyMap<string, readonly RequiredAction[]>> {
  const waiting = runs.filter(({ status }) => status === 'requires_action').map(({ id }) => id);
  const calls = (await readOpenCalls(db, waiting)).filter(isUnanswered);
  return new Map(
    [...Map.groupBy(calls, ({ runId }) => runId)].map(([runId, group]) => [
      runId,
      group
        .map((call) => ({ ...call, kind: call.requiredAction }))
        .filter(isAsked)
        .map((call) => toRequiredAction(call.messageId, call)),
    ]),
  );
}

/** What a call has begun outside of its worker, which goes on until the call's tool stops it. */
export type LeftCall = Readonly<{ toolName: string; work: Json }>;

/**
 * Gives each open call of an ending run an outcome that the next run can show; an output that a client gave is kept.
 * The caller holds the locks of session and run.
 * @param notStarted the model's text for a call that never ran
 * @returns the events, and what the calls leave behind elsewhere
 */
export async function closeOpenCalls(
  tx: Tx,
  runId: string,
  notStarted: string,
): Promise<Readonly<{ events: readonly NewEvent[]; left: readonly LeftCall[] }>> {
  const events: NewEvent[] = [];
  const left: LeftCall[] = [];
  for (const call of await readOpenCalls(tx, [runId])) {
    const outcome = closeCall(closingOf(call), call.answer?.given ?? null, notStarted);
    await changeCall(tx, call, outcome);
    events.push(callResultEvent(call.messageId, call, outcome));
    if (call.outsideWork !== null) left.push({ toolName: call.part.toolName, work: call.outsideWork });
  }
  return { events, left };
}

/**
 * Writes the resolution of a call, with the view limit of any output: no worker has fitted this one into the view.
 * @param answer the answer that led to it
 */
export async function changeCall(
  tx: Tx,
  { sessionId, messageId, index }: Pick<OpenCall, 'sessionId' | 'messageId' | 'index'>,
  { state, output, input }: CallResolution,
  answer?: RecordedAnswer,
): Promise<void> {
  const isLong = output !== undefined && outputText(output).length > MAX_TOOL_OUTPUT_CHARS;
  await tx
    .updateTable('parts')
    .set((eb) => ({
      state,
      ...((output !== undefined || input !== undefined) && {
        content: sql`${eb.ref('content')} || ${toWrittenJson({ output, input })}::jsonb`,
      }),
      ...(output !== undefined && { finished_at: sql`clock_timestamp()` }),
      ...(isLong && { view_limit: MAX_TOOL_OUTPUT_CHARS }),
      ...(answer !== undefined && { answer: toWrittenJson(answer) }),
    }))
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where('idx', '=', index)
    .execute();
}
