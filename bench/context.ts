import { sql } from 'kysely';
import { decideContext } from '../src/domain/context/decide.ts';
import { type ContextMeter, createContextMeter } from '../src/domain/context/meter/context-meter.ts';
import { type ContextState, NEW_CONTEXT_STATE } from '../src/domain/context/meter/state.ts';
import { estimateText } from '../src/domain/context/meter/tokens.ts';
import { planPrune, pruneInputOf, worthOf } from '../src/domain/context/prune/prune-plan.ts';
import type { ViewMessage } from '../src/domain/transcript/message.ts';
import { NO_USAGE } from '../src/domain/usage.ts';
import { newId } from '../src/platform/new-id.ts';
import type { Db } from '../src/store/db/database.ts';
import { viewSchema } from '../src/store/transcript/views.ts';
import { type BeginStep, createBeginStep } from './begin-step.ts';
import type { Bench } from './bench.ts';
import { codingSession, MODEL, MODEL_ENTRY, prunedSession } from './coding-session.ts';
import { createBenchDatabase } from './database.ts';
import { type Row, toRow } from './row.ts';
import { AGENT, startRun, storeSession } from './stored-session.ts';

const SIZES = [100, 1_000, 5_000] as const;
const GOAL_MS = 10;
const GOAL_SIZE = 1_000;
/** Repetitions before the measurement, so that compiled code is measured, as in a running worker. */
const WARM_UPS = 20;
const REPETITIONS = 31;
/** Repetitions with a round trip to Postgres, which are slow and need no warm-up. */
const QUERY_REPETITIONS = 9;
const SEED = 20_261_121;
/** The newest messages, whose outputs a prune keeps. */
const KEPT_BY_PRUNE = 40;
/** Share of `usable` that the last call billed: high enough that the worker must work out whether a prune pays. */
const BILLED_SHARE = 0.6;

/**
 * Cost of the context layer per step: views of 100 to 5 000 messages are loaded from Postgres, measured and decided on.
 * Every repetition gets new objects, as a step does, so no cache helps.
 */
export async function benchContext({ services }: Bench): Promise<Row[]> {
  await using database = await createBenchDatabase(services);
  const rows: Row[] = [];
  for (const size of SIZES) {
    const whole = codingSession(size, SEED);
    rows.push(...(await benchView(database.db, `${size} unpruned`, size, whole)));
    rows.push(...(await benchView(database.db, `${size} pruned`, size, prunedSession(whole, KEPT_BY_PRUNE))));
  }
  return rows;
}

async function benchView(db: Db, name: string, size: number, messages: readonly ViewMessage[]): Promise<Row[]> {
  const meter = meterOfAgent();
  const state = billed(meter, messages);
  const unbilled = { ...state, anchor: null };
  const sessionId = await storeSession(db, { messages, contextState: state });
  const beginStep = createBeginStep(db);
  const json = JSON.stringify(await queryView(db, sessionId));
  const read = (): unknown => JSON.parse(json);
  const load = (): readonly ViewMessage[] => viewSchema.parse(read());
  const row = (what: string, timed: string, times: readonly number[], goal?: number): Row =>
    toRow({
      case: `context/${name}/${what}`,
      backend: 'postgres',
      timed,
      values: times,
      ...(goal !== undefined && size === GOAL_SIZE && { goal: { atMost: goal } }),
    });
  return [
    row(
      'view+measure+decide',
      'rows as the driver gives them: checked, measured, decided, is a prune worth it',
      await time(read, (rows) => decide(meter, viewSchema.parse(rows), state)),
      GOAL_MS,
    ),
    row('measure+decide', 'the same without the view', await time(load, (view) => decide(meter, view, state))),
    row(
      'unanchored',
      'the same with everything estimated: once after a prune or compaction',
      await time(load, (view) => decide(meter, view, unbilled)),
    ),
    row('prune plan', 'the plan of a prune job', await time(load, (view) => plan(meter, view, state))),
    row(
      'query',
      "the view's query in Postgres, its JSON sent and parsed",
      await timeQuery(() => queryView(db, sessionId)),
    ),
    row('step', 'claim with the query, view, measure, decide', await timeSteps(db, beginStep, sessionId)),
  ];
}

/** Reads all pages of a view, without parsing them. */
async function queryView(db: Db, sessionId: string): Promise<unknown[]> {
  const view: unknown[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const { rows } = await sql<ViewPage>`
      select page.view, page.next_after as "nextAfter" from baton_view(${sessionId}, ${after}) as page`.execute(db);
    view.push(...(rows[0]?.view ?? []));
    after = rows[0]?.nextAfter ?? null;
  }
  return view;
}

type ViewPage = Readonly<{ view: unknown[]; nextAfter: number | null }>;

/** Begins a step again and again under the same claim, which returns the same view each time. */
async function timeSteps(db: Db, beginStep: BeginStep, sessionId: string): Promise<number[]> {
  const job = await startRun(db, sessionId);
  const [claimId, messageId] = [newId(), newId()];
  return timeQuery(() => beginStep(job, claimId, messageId));
}

const timeQuery = (query: () => Promise<unknown>): Promise<number[]> => time(() => null, query, QUERY_REPETITIONS, 2);

/** Milliseconds of the work, without its preparation. */
async function time<T>(
  prepare: () => T,
  work: (prepared: T) => unknown,
  repetitions = REPETITIONS,
  warmUps = WARM_UPS,
): Promise<number[]> {
  const times: number[] = [];
  for (let round = -warmUps; round < repetitions; round++) {
    const prepared = prepare();
    const startedAt = performance.now();
    await work(prepared);
    if (round >= 0) times.push(performance.now() - startedAt);
  }
  return times;
}

function decide(meter: ContextMeter, view: readonly ViewMessage[], state: ContextState) {
  const measurement = meter.measure(view, state);
  return decideContext(meter, measurement, state, { worth: worthOf(meter, state, view, measurement.total) });
}

function plan(meter: ContextMeter, view: readonly ViewMessage[], state: ContextState) {
  return planPrune(pruneInputOf(meter, state, view, meter.measure(view, state).total));
}

function meterOfAgent(): ContextMeter {
  return createContextMeter({
    model: MODEL,
    entry: MODEL_ENTRY,
    learned: null,
    prior: null,
    policy: AGENT.context,
    instructions: AGENT.instructions,
    tools: [],
    count: estimateText,
  });
}

/** The context state after the last assistant message was billed. */
function billed({ thresholds }: ContextMeter, messages: readonly ViewMessage[]): ContextState {
  const last = messages.findLast((message) => message.role === 'assistant');
  const usage = { ...NO_USAGE, inputTokens: Math.floor(BILLED_SHARE * thresholds.usableTokens), outputTokens: 300 };
  return { ...NEW_CONTEXT_STATE, model: MODEL, anchor: { usage, messageSeq: last?.seq ?? 1 } };
}
