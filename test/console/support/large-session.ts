import { sql } from 'kysely';
import type { Db } from '../../../src/store/db/database.ts';

const STEPS_OF_RUN = 19;

/** Each statement then ends within the limits of the service's pool, also on a slow machine. */
const RUNS_AT_ONCE = 50;

/**
 * Writes runs of 20 messages into an idle session, as if workers had done them: each step has a call of a tool, and
 * eight events. 500 runs are 10 000 messages and 76 000 events.
 */
export async function fillSession(db: Db, sessionId: string, runs: number): Promise<void> {
  for (let first = 0; first < runs; first += RUNS_AT_ONCE) {
    await fillRuns(db, sessionId, first, Math.min(runs, first + RUNS_AT_ONCE));
  }
}

/** Writes the runs from `first` to before `end`. */
async function fillRuns(db: Db, sessionId: string, first: number, end: number): Promise<void> {
  const before = first * (STEPS_OF_RUN + 1);
  const messages = end * (STEPS_OF_RUN + 1);
  const eventsBefore = first * STEPS_OF_RUN * 8;
  await db.transaction().execute(async (tx) => {
    await sql`
      create temporary table filling on commit drop as
      select n as seq, gen_random_uuid() as id, (n - 1) / 20 as run, (n - 1) % 20 as step,
        now() - interval '2 days' + n * interval '4 seconds' as at
      from generate_series(${before}::integer + 1, ${messages}::integer) as n`.execute(tx);
    await sql`
      create temporary table filling_runs on commit drop as
      select run, gen_random_uuid() as id, min(at) as at, max(at) as ended from filling group by run`.execute(tx);
    await sql`
      insert into runs (id, session_id, status, step_count, created_at, started_at, finished_at, input_tokens, output_tokens)
      select id, ${sessionId}, 'completed', ${STEPS_OF_RUN}::integer, at, at, ended, 90000, 4000 from filling_runs`.execute(
      tx,
    );
    await sql`
      insert into messages (id, session_id, seq, role, run_id, step_no, attempt, model, finish_reason, usage, event_seq, created_at, finished_at)
      select filling.id, ${sessionId}, seq, case step when 0 then 'user' else 'assistant' end,
        filling_runs.id, nullif(step, 0), case when step > 0 then 1 end, case when step > 0 then 'simulated/large' end,
        case when step = 0 then null when step = 19 then 'stop' else 'tool-calls' end,
        case when step > 0 then ${USAGE}::jsonb end, case when step > 0 then (run * 19 + step - 1) * 8 + 1 end, filling.at, filling.at + interval '1 second'
      from filling join filling_runs using (run)`.execute(tx);
    await sql`
      insert into parts (message_id, idx, session_id, type, content)
      select id, 0, ${sessionId}, 'text', jsonb_build_object('type', 'text', 'text', case step
        when 0 then 'Question ' || run || ': what does this part of the service do, and who calls it?'
        else '**Step ' || step || '** of run ' || run || E'.\n\n- I read the \`shippingCost\` function.\n- Then I look at its callers.\n\n'
          || repeat('It adds up the weights of all parcels, and takes the next higher price. ', 1 + seq::integer % 7) end)
      from filling`.execute(tx);
    await sql`
      insert into parts (message_id, idx, session_id, type, tool_call_id, tool_name, state, started_at, finished_at, content)
      select id, 1, ${sessionId}, 'tool', 'call_' || seq, 'read_file', 'completed', at + interval '700 ms', at + interval '900 ms',
        jsonb_build_object('type', 'tool', 'toolCallId', 'call_' || seq, 'toolName', 'read_file',
          'input', jsonb_build_object('path', 'src/shipping/cost-' || seq || '.ts'),
          'output', jsonb_build_object('type', 'text', 'value', repeat(E'export const rate = 4.2; // by weight\n', 40)))
      from filling where step between 1 and 18`.execute(tx);
    await sql`
      insert into events (session_id, seq, run_id, type, data, created_at)
      select ${sessionId}, ${eventsBefore}::integer + row_number() over (order by filling.seq, no), filling_runs.id,
        (array['step:started', 'llm:tool-call', 'llm:response', 'llm:tool-result', 'usage:updated', 'message:created', 'step:completed', 'run:queued'])[no],
        case no
          when 1 then jsonb_build_object('runId', 'run_' || replace(filling_runs.id::text, '-', ''), 'step', step, 'attempt', 1,
            'messageId', 'msg_' || replace(filling.id::text, '-', ''), 'workerId', 'large', 'waitedMs', 12)
          when 3 then jsonb_build_object('messageId', 'msg_' || replace(filling.id::text, '-', ''), 'content', '', 'provider', 'simulated',
            'model', 'large', 'finishReason', 'stop', 'tokenUsage', ${USAGE}::jsonb, 'costUsd', 0.001, 'workerId', 'large',
            'timing', jsonb_build_object('waitedMs', 12, 'claimMs', 4, 'viewMs', 9, 'firstTokenMs', 200 + seq % 150, 'streamMs', 300 + seq % 200),
            'context', jsonb_build_object('usedTokens', 20000 + step * 3000, 'usableTokens', 168000))
          when 7 then jsonb_build_object('runId', 'run_' || replace(filling_runs.id::text, '-', ''), 'step', step, 'attempt', 1,
            'messageId', 'msg_' || replace(filling.id::text, '-', ''), 'finishReason', 'stop', 'toolCalls', 1, 'usage', ${USAGE}::jsonb,
            'workerId', 'large', 'waitedMs', 12, 'firstTokenMs', 200)
          else jsonb_build_object('runId', 'run_' || replace(filling_runs.id::text, '-', '')) end,
        filling.at + no * interval '130 ms'
      from filling join filling_runs using (run), generate_series(1, 8) as no where step > 0`.execute(tx);
    await sql`
      update sessions set message_seq = ${messages}::integer,
        event_seq = (select max(seq) from events where session_id = ${sessionId}) where id = ${sessionId}`.execute(tx);
  });
}

const USAGE = JSON.stringify({
  inputTokens: 24_000,
  outputTokens: 210,
  reasoningTokens: 0,
  cacheReadTokens: 21_000,
  cacheWriteTokens: 3_000,
  totalTokens: 24_210,
});
