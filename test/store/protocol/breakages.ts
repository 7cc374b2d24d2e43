import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Db } from '../../../src/store/db/database.ts';
import { installFunctions } from '../../../src/store/db/sql-functions.ts';

type Change = Readonly<{ file: string; find: string; replace: string }>;

const FUNCTIONS = fileURLToPath(new URL('../../../src/store/sql', import.meta.url));

const READ_RUN = 'select * into v_run from runs where id = p_run for no key update;';

/** Small changes of the SQL functions that look harmless. A play must show each of them. */
export const BREAKAGES: Readonly<Record<string, readonly Change[]>> = {
  'a worker that has lost its claim may still write': [
    { file: 'baton_lock_claimed_run.sql', find: 'and epoch = p_epoch and claim_id = p_claim', replace: '' },
  ],
  'a write is fenced by the epoch alone, which a claim does not raise': [
    { file: 'baton_lock_claimed_run.sql', find: 'and claim_id = p_claim', replace: '' },
    { file: 'baton_claim_run.sql', find: 'epoch = v_session.epoch + 1', replace: 'epoch = v_session.epoch' },
  ],
  'a worker claims a run that another one has': [
    {
      file: 'baton_claim_run.sql',
      find: "if v_run.claim_id is not null then return json_build_object('outcome', 'held'); end if;",
      replace: '',
    },
  ],
  'a claim reads the run before it has the lock': [
    {
      file: 'baton_claim_run.sql',
      find: 'v_after bigint := 0;',
      replace: 'v_after bigint := 0;\n  v_early runs := (select runs from runs where id = p_run);',
    },
    { file: 'baton_claim_run.sql', find: READ_RUN, replace: `${READ_RUN} v_run := v_early;` },
  ],
  'a call is found by the id of its message, which another tenant may have as well': [
    {
      file: 'baton_move_call.sql',
      find: 'where session_id = p_session and message_id = v_message and idx = v_idx and p_move',
      replace: 'where message_id = v_message and idx = v_idx and p_move',
    },
  ],
  'messages are taken and stay in the inbox': [
    {
      file: 'baton_drain_inbox.sql',
      find: 'update inbox set consumed_message_seq = v_seq\n',
      replace: 'update inbox set run_id = p_run\n',
    },
  ],
  'the end of a step looks for messages before it has the lock': [
    {
      file: 'baton_finish_step.sql',
      find: '  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);\n',
      replace: `  v_early text := set_config('baton.waiting', (exists (select 1 from inbox
    where session_id = (select session_id from runs where id = p_run) and consumed_message_seq is null
      and run_id is not distinct from p_run))::text, true);
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
`,
    },
    {
      file: 'baton_take_branch.sql',
      find: '    into v_requested, v_waiting from sessions where id = v_session;',
      replace: `    into v_requested, v_waiting from sessions where id = v_session;
  v_waiting := coalesce(nullif(current_setting('baton.waiting', true), '')::boolean, v_waiting);`,
    },
  ],
  'a step that a worker carries on leaves behind what waits for it': [
    { file: 'baton_write_branch.sql', find: 'v_claim is not null and not p_waiting', replace: 'v_claim is not null' },
  ],
  'a worker carries on past a compaction that was requested': [
    {
      file: 'baton_take_branch.sql',
      find: "if v_kind = 'continue' and v_branch ->> 'pendingKind' = 'step' and",
      replace: "if v_kind = 'continue' and",
    },
  ],
  'a worker carries on under the claim of the step that it ended': [
    {
      file: 'baton_write_branch.sql',
      find: 'epoch = epoch + 1,\n    claim_id = v_claim,',
      replace:
        'epoch = epoch + (v_claim is null)::integer,\n    claim_id = case when v_claim is not null then claim_id end,',
    },
    {
      file: 'baton_write_branch.sql',
      find: 'update sessions set\n    epoch = epoch + 1,',
      replace: 'update sessions set\n    epoch = epoch + (v_claim is null)::integer,',
    },
  ],
  'a worker that carries on has no claim to what it does': [
    { file: 'baton_write_branch.sql', find: 'claim_id = v_claim,', replace: 'claim_id = null,' },
  ],
  'a call that has ended is run again': [
    { file: 'baton_move_call.sql', find: "and p_move -> 'from' ? state", replace: '' },
  ],
  'a call starts after a cancel': [
    {
      file: 'baton_move_calls.sql',
      find: "when v_is_cancelled and v_move ->> 'to' = 'running'",
      replace: 'when false',
    },
  ],
  'a cancel is written into a run whose worker has let it go': [
    {
      file: 'baton_mark_cancelling.sql',
      find: 'if v_is_claimed is distinct from true then return null; end if;',
      replace: '',
    },
  ],
  'the end of a run leaves messages without a run': [
    { file: 'baton_follow_run_end.sql', find: 'else 0 end;', replace: 'else v_inbox_seq end;' },
  ],
  'a new run leaves parked messages behind': [
    {
      file: 'baton_start_run.sql',
      find: 'where session_id = p_session and consumed_message_seq is null;',
      replace: 'where session_id = p_session and consumed_message_seq is null and run_id is null;',
    },
  ],
  'a step begins again although its run is to stop': [
    { file: 'baton_restart_step.sql', find: 'if v_run.cancel_requested_at is null and', replace: 'if' },
  ],
};

/** Installs the functions with these changes. @throws if one of them is not there to be changed */
export async function installBroken(db: Db, changes: readonly Change[]): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-broken-sql-'));
  try {
    await cp(FUNCTIONS, folder, { recursive: true });
    for (const { file, find, replace } of changes) {
      const text = await readFile(path.join(folder, file), 'utf8');
      if (!text.includes(find)) throw new Error(`${file} has no "${find}"`);
      await writeFile(
        path.join(folder, file),
        text.replace(find, () => replace),
      );
    }
    await installFunctions(db, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
