import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { Findings } from './check/verdict.ts';
import { copyProduct, type SourceChange } from './strikes/product-copy.ts';

/**
 * Kinds of findings that say what is wrong: a row that struck nothing says nothing, and a copy
 * that only crashes neither.
 */
type Telling = Exclude<keyof Findings, 'missed' | 'crashes' | 'unknownTools'>;

/** A promise broken on purpose, the faults under which that must show, and how. */
type Breakage = Readonly<{
  name: string;
  about: string;
  changes: readonly SourceChange[];
  faults: readonly string[];
  /** It is found out by any of these, and by nothing else. */
  foundBy: readonly Telling[];
}>;

const CLAIM_RUN = 'src/store/sql/baton_claim_run.sql';
const TAKE_BRANCH = 'src/store/sql/baton_take_branch.sql';

/**
 * What the suite must find out. Each is a small change that looks harmless in a review, and is, as long as nothing goes
 * wrong.
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
        file: 'src/http/after-commit.ts',
        find: '  if (accepted.job !== null) await dispatchJob(deps, accepted.job);',
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
        file: TAKE_BRANCH,
        find: '    into v_requested, v_waiting from sessions where id = v_session;',
        replace: `    into v_requested, v_waiting from sessions where id = v_session;
  v_waiting := coalesce(current_setting('baton.waiting', true), 'false') = 'true';`,
      },
      {
        file: TAKE_BRANCH,
        find: 'and (run_id is null or run_id = p_run.id) and seq > v_after',
        replace: `and (run_id is null or run_id = p_run.id) and seq > v_after
      and coalesce(current_setting('baton.any', true), 'false') = 'true'`,
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
        find: 'if (ran !== null && running.size === 1) last = move;\n    else await commit(move);',
        replace: 'setTimeout(() => void commit(move).catch(() => undefined), 20);',
      },
    ],
    faults: ['none'],
    foundBy: ['lostResults', 'invalidTranscripts'],
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
    ],
    faults: ['cancels-and-steers'],
    foundBy: ['lateSteers', 'lostMessages'],
  },
  {
    name: 'late-edit',
    about: 'a message is changed or taken back although a run has taken it up',
    changes: [
      {
        file: 'src/store/waiting.ts',
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

/** What of that which the suite found says that this promise was broken. */
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
    // What is wrong with a row it says on stderr.
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
