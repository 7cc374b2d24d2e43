import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { Breakage, Telling } from './breakage.ts';
import { BROKEN_CHILDREN } from './broken-children.ts';
import { copyProduct } from './strikes/product-copy.ts';

const CLAIM_RUN = 'src/store/sql/baton_claim_run.sql';

/**
 * Broken promises that the suite must find. Each is a small change that looks harmless in a review, and is harmless as
 * long as nothing goes wrong.
 */
export const BREAKAGES: readonly Breakage[] = [
  {
    name: 'no-fence',
    about: 'a worker that has lost its claim may still write',
    changes: [
      {
        file: 'src/store/sql/baton_lock_claimed_run.sql',
        find: 'and epoch = p_epoch and claim_id = p_claim',
        replace: '',
      },
    ],
    faults: ['late-writes'],
    foundBy: ['outOfOrder', 'invalidTranscripts', 'repeatedTools', 'lostResults'],
  },
  {
    name: 'dead-queue',
    about: 'a queue asks Redis for its version, whose failure BullMQ keeps for good',
    changes: [{ file: 'src/queues/bullmq-transport.ts', find: 'skipVersionCheck: true,', replace: '' }],
    faults: ['start-in-redis-outage'],
    foundBy: ['unready'],
  },
  {
    name: 'asked-anew',
    about: 'the answer of a dead worker is not read again where it was made in the background',
    changes: [
      {
        file: 'src/step/background.ts',
        find: 'call({ earlier, onResponse })',
        replace: 'call({ earlier: null, onResponse })',
      },
    ],
    faults: ['kill-mid-stream-background'],
    foundBy: ['reasked'],
  },
  {
    name: 'enqueue-before-commit',
    about: 'the job of a message is added before the transaction that it belongs to is committed',
    changes: [
      {
        file: 'src/http/routes/messages.ts',
        find: '      return toAcceptedBody(accepted);',
        replace:
          '      if (accepted.job !== null) await deps.jobs.add([accepted.job]);\n      return toAcceptedBody(accepted);',
      },
      {
        file: 'src/commands/after-commit.ts',
        find: '  await addJobsOfRequest(ports, jobsOf(accepted));',
        replace: '',
      },
    ],
    faults: ['none'],
    foundBy: ['needlessRecoveries', 'stuck'],
  },
  {
    name: 'inbox-before-lock',
    about: 'the end of a step looks for waiting messages a round trip before it has the lock',
    changes: [
      {
        file: 'src/store/sql/baton_finish_step.sql',
        find: '  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);\n',
        replace: `  v_early text := set_config('baton.waiting', (exists (select 1 from inbox
    where session_id = (select session_id from runs where id = p_run) and consumed_message_seq is null
      and run_id is not distinct from p_run))::text, true);
  v_early_any text := set_config('baton.any', (exists (select 1 from inbox
    where session_id = (select session_id from runs where id = p_run) and consumed_message_seq is null))::text, true);
  -- As long as a look in a round trip of its own would be ahead of the end.
  v_ahead text := pg_sleep(0.01)::text;
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
`,
      },
      {
        file: 'src/store/sql/baton_take_branch.sql',
        find: '    into v_requested, v_waiting from sessions where id = v_session;',
        replace: `    into v_requested, v_waiting from sessions where id = v_session;
  v_waiting := coalesce(current_setting('baton.waiting', true), 'false') = 'true';`,
      },
      {
        file: 'src/store/sql/baton_follow_run_end.sql',
        find: 'and (run_id is null or run_id = p_run) and seq > v_parked_upto',
        replace: `and (run_id is null or run_id = p_run) and seq > v_parked_upto
      and coalesce(current_setting('baton.any', true), '') <> 'false'`,
      },
    ],
    faults: ['steers-at-the-end'],
    foundBy: ['lateSteers', 'lostMessages'],
  },
  {
    name: 'late-result',
    about: 'the result of a tool is given to the model before it is committed',
    changes: [
      {
        file: 'src/step/tool-runner/tool-runner.ts',
        find: 'if (ranMs !== undefined && running.size === 1) writes.hold(move);\n  else await writes.commit(move);',
        replace:
          'if (ranMs !== undefined && running.size === 1) writes.hold(move);\n  else setTimeout(() => void writes.commit(move).catch(() => undefined), 20);',
      },
    ],
    faults: ['none'],
    // The end of a step refuses a call that is still open, so its run stands until its lease has expired.
    foundBy: ['lostResults', 'invalidTranscripts', 'needlessRecoveries'],
  },
  {
    name: 'stale-view',
    about: 'a step whose worker knows a part of its view reads the rest before it takes up what waits',
    changes: [
      {
        file: CLAIM_RUN,
        find: '    v_begun := baton_begin_step(v_run, p_message, v_after);\n    v_view := v_begun.view;',
        replace: `    v_known := case when v_after > 0 then (baton_view(v_session.id, v_after)).view end;
    v_begun := baton_begin_step(v_run, p_message, v_after);
    v_view := coalesce(v_known, v_begun.view);`,
      },
      {
        file: CLAIM_RUN,
        find: '  v_after bigint := 0;\n  v_needs_slot',
        replace: '  v_after bigint := 0;\n  v_known json;\n  v_needs_slot',
      },
      {
        file: 'src/store/sql/baton_carry_on.sql',
        find: '    v_begun := baton_begin_step(p_run, v_message, v_after);\n    v_view := v_begun.view;',
        replace: `    v_known := case when v_after > 0 then (baton_view(v_session.id, v_after)).view end;
    v_begun := baton_begin_step(p_run, v_message, v_after);
    v_view := coalesce(v_known, v_begun.view);`,
      },
      { file: 'src/store/sql/baton_carry_on.sql', find: '  v_view json;', replace: '  v_view json;\n  v_known json;' },
    ],
    faults: ['cancels-and-steers'],
    foundBy: ['lateSteers', 'lostMessages'],
  },
  {
    name: 'carry-past-inbox',
    about: 'a worker that goes on with the next step leaves behind what waits for it',
    changes: [
      {
        file: 'src/store/sql/baton_write_branch.sql',
        find: 'v_claim is not null and not p_waiting',
        replace: 'v_claim is not null',
      },
    ],
    faults: ['cancels-and-steers'],
    foundBy: ['lateSteers', 'lostMessages'],
  },
  {
    name: 'carry-when-paused',
    about: 'a worker goes on with the next step whatever the queue does',
    changes: [
      {
        file: 'src/claims/carried-steps.ts',
        find: 'if (isStopped || inARow === undefined || !queue.gives()) return false;',
        replace: 'if (inARow !== -1) return !isStopped;',
      },
    ],
    faults: ['paused-queue'],
    foundBy: ['pausedWork'],
  },
  {
    name: 'forgotten-carry',
    about: 'a worker that lost the answer does not ask whether it has begun the next step',
    changes: [
      {
        file: 'src/step/finish.ts',
        find: 'const found = await nextClaim.find(goesOn.no);',
        replace: 'const found = goesOn.no < 0 ? await nextClaim.find(goesOn.no) : null;',
      },
    ],
    faults: ['lost-hand-overs'],
    foundBy: ['needlessRecoveries', 'stuck'],
  },
  {
    name: 'forgotten-job',
    about: 'a worker that lost the answer to the end of a step does not add the job that follows',
    changes: [
      {
        file: 'src/claims/finish-claim.ts',
        find: 'await handBack(deps, scope, isRepeated)',
        replace: 'await handBack(deps, scope, false)',
      },
    ],
    faults: ['lost-hand-overs'],
    foundBy: ['needlessRecoveries', 'stuck'],
  },
  {
    name: 'torn-group',
    about: 'after a group that failed, its writes count as refused instead of being written alone',
    changes: [
      {
        file: 'src/step/step-writer.ts',
        find: 'settled(again ? alone : () => Promise.reject(error))',
        replace: 'settled(again ? async () => (alone === undefined ? error : null) : () => Promise.reject(error))',
      },
    ],
    faults: ['failed-groups'],
    foundBy: ['needlessRecoveries', 'stuck'],
  },
  {
    name: 'late-edit',
    about: 'a message is changed or taken back although a run has taken it up',
    changes: [
      {
        file: 'src/store/session/waiting-messages.ts',
        find: '  if (item.consumed_message_seq !== null) throw new BatonError(',
        replace: '  if (item.consumed_message_seq === -1) throw new BatonError(',
      },
    ],
    faults: ['cancels-and-steers'],
    foundBy: ['ghostMessages', 'lostMessages'],
  },
  {
    name: 'open-compaction',
    about: 'a round of compaction whose worker died is left open by the one that begins the next',
    changes: [
      {
        file: 'src/store/sql/baton_begin_compaction.sql',
        find: "where session_id = v_session and state = 'running';\n  if found",
        replace: "where session_id = v_session and state = 'failed';\n  if false",
      },
    ],
    faults: ['kill-compaction'],
    foundBy: ['stuck', 'outOfOrder', 'invalidTranscripts'],
  },
  {
    name: 'deaf-worker',
    about: 'workers do not hear of a cancel: neither from the notification nor from the heartbeat',
    changes: [
      {
        file: 'src/claims/claim-keeper.ts',
        find: "for (const entry of entries) if (entry.runId === runId) stop(entry, 'cancelled');",
        replace: '',
      },
      {
        file: 'src/claims/claim-keeper.ts',
        find: "if (answer.cancelRequested) stop(entry, 'cancelled');",
        replace: '',
      },
    ],
    faults: ['cancel-answers'],
    foundBy: ['unheardCancels'],
  },
  {
    name: 'any-version',
    about: 'a worker takes runs that ask for a newer version',
    changes: [{ file: CLAIM_RUN, find: 'if v_run.required_engine > p_engine then', replace: 'if false then' }],
    faults: ['mixed-versions'],
    foundBy: ['olderVersions'],
  },
  {
    name: 'forgotten-delivery',
    about: 'a delivery to a webhook whose worker died is not given to the queue again',
    changes: [
      {
        file: 'src/store/sql/baton_dispatch_deliveries.sql',
        find: "s.state = 'sending' and s.claim_id is not null\n",
        replace: "s.state = 'sending' and false\n",
      },
    ],
    faults: ['kill-in-delivery'],
    foundBy: ['lostDeliveries'],
  },
  {
    name: 'other-bytes',
    about: 'a later attempt at a delivery has other bytes than the first',
    changes: [
      {
        file: 'src/webhooks/deliver.ts',
        find: "const text = body.toString('utf8');",
        replace: "const text = body.toString('utf8') + ' '.repeat(attemptNo);",
      },
    ],
    faults: ['kill-in-delivery'],
    foundBy: ['doubledDeliveries'],
  },
  {
    name: 'split-fire',
    about: 'the message of a fire is committed before its next fire is set, under ids that are not made of the fire',
    changes: [
      {
        file: 'src/commands/fire-schedule.ts',
        find: `  const fire = { actor: serviceActor(schedule.tenant_id), fireAtMs, newSession, replaces: plan.kind === 'replace' };
  const fired = await fireLocked(tx, ports, schedule, fire);`,
        replace: `  const fire = { actor: serviceActor(schedule.tenant_id), fireAtMs, newSession, replaces: plan.kind === 'replace' };
  const fired = await inTransaction(ports.db, (own) => fireLocked(own, ports, schedule, fire));`,
      },
      {
        file: 'src/commands/fire-schedule.ts',
        find: "derivedId('schedule', schedule.id, String(fireAtMs), what)",
        replace: "derivedId('schedule', schedule.id, String(Math.random()), what)",
      },
      {
        file: 'src/store/around/schedules.ts',
        find: '    .forUpdate()\n    .skipLocked()',
        replace: '    .forNoKeyUpdate()\n    .skipLocked()',
      },
      { file: 'src/store/around/schedules.ts', find: '  return inserted !== undefined;', replace: '  return true;' },
    ],
    faults: ['kill-at-fire'],
    foundBy: ['doubledFires'],
  },
  {
    name: 'no-epoch',
    about: 'no process notices that Postgres has gone back in time',
    changes: [{ file: 'src/store/db/history.ts', find: '    last = now;', replace: '    last ??= now;' }],
    faults: ['stale-standby'],
    foundBy: ['unreset'],
  },
  {
    name: 'lost-answer',
    about: 'a step ends although a failover has lost its answer, or outcomes of its calls',
    changes: [
      {
        file: 'src/store/sql/baton_finish_step.sql',
        find: "v_written jsonb := p_finish -> 'written';",
        replace: 'v_written jsonb := null;',
      },
    ],
    faults: ['promoted-standby'],
    foundBy: ['invalidTranscripts'],
  },
  {
    name: 'kept-claim',
    about: 'a step whose earlier writes a failover has lost fails its run instead of beginning again',
    changes: [
      {
        file: 'src/claims/claimed-job.ts',
        find: 'if (epoch !== scope.held.historyEpoch) {',
        replace: 'if (epoch === undefined) {',
      },
    ],
    faults: ['promoted-standby'],
    foundBy: ['failedRuns'],
  },
  {
    name: 'unfair',
    about: 'a tenant may have all lanes of a process, and all slots for deliveries',
    changes: [
      {
        file: 'src/store/sql/baton_dispatch_deliveries.sql',
        find: 'v_share := greatest(1, v_slots / 4);',
        replace: 'v_share := v_slots;',
      },
      {
        file: 'src/platform/fair-lanes.ts',
        find: 'let fewest = perTenant;',
        replace: 'let fewest = perTenant * atOnce;',
      },
    ],
    faults: ['crowding-tenant'],
    foundBy: ['unfairShares'],
  },
  {
    name: 'no-extra-slots',
    about: 'a worker whose slots are all taken by one tenant looks for no work of others',
    changes: [
      {
        file: 'src/claims/extra-slots.ts',
        find: 'if (wasBusy) await look();',
        replace: 'void look;',
      },
    ],
    faults: ['crowding-runs'],
    foundBy: ['unfairShares'],
  },
  ...BROKEN_CHILDREN,
];

const rowSchema = z.looseObject({
  fault: z.string(),
  backend: z.string(),
  runs: z.number().default(0),
  ok: z.boolean().default(true),
  skipped: z.string().optional(),
});

type Row = z.infer<typeof rowSchema>;

type BrokenOptions = Readonly<{
  backend?: string | undefined;
  runs: number;
  sessions: number;
  seed: number;
  log?: string | undefined;
}>;

/** The kinds of findings in the rows that show that this promise was broken. */
export function foundOut({ foundBy }: Pick<Breakage, 'foundBy'>, rows: readonly Row[]): Telling[] {
  return foundBy.filter((kind) => rows.some((row) => Number(row[kind] ?? 0) > 0));
}

/**
 * Breaks a copy of the product and runs the suite on it.
 * @returns whether the suite found out, as it must
 */
export async function runBroken(
  name: string,
  { backend, runs, sessions, seed, log }: BrokenOptions,
  print: (line: string) => void,
): Promise<boolean> {
  const breakage = BREAKAGES.find((each) => each.name === name);
  if (breakage === undefined) throw new Error(`known are: ${BREAKAGES.map((each) => each.name).join(', ')}`);
  const folder = await mkdtemp(join(tmpdir(), 'baton-broken-'));
  try {
    const copy = await copyProduct(folder, breakage.changes);
    const chosen = Object.entries({ only: breakage.faults.join(','), backend, runs, sessions, seed, log }).flatMap(
      ([option, value]) => (value === undefined ? [] : [`--${option}`, String(value)]),
    );
    // The suite reports the findings of a bad row on stderr.
    const suite = spawn(process.execPath, [join(copy, 'test/faults/run.ts'), '--json', ...chosen], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const rows: Row[] = [];
    createInterface({ input: suite.stdout }).on('line', (line) => {
      const row = rowSchema.parse(JSON.parse(line));
      rows.push(row);
      print(tellRow(row));
    });
    await once(suite, 'close');
    const found = foundOut(breakage, rows);
    print(`${found.length > 0 ? `found out by ${found.join(', ')}` : 'NOT FOUND OUT'}: ${breakage.about}`);
    return found.length > 0;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function tellRow({ fault, backend, runs, ok, skipped }: Row): string {
  return skipped === undefined
    ? `${ok ? 'ok ' : 'BAD'} ${fault} on ${backend}: ${runs} runs`
    : `skipped ${fault}: ${skipped}`;
}
