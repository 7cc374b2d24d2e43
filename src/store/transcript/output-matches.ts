import { sql } from 'kysely';
import type { OutputAnswer } from '../../domain/transcript/required-action.ts';
import type { Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { keepClientFiles } from './media.ts';

export type OutputMatch = Readonly<{ runId: string; isSame: boolean }>;

type CallOutput = Readonly<{ messageId: string; index: number; given: OutputAnswer }>;

/**
 * The calls to which a client has already given an output. `isSame`: it was the same output.
 * @throws BatonError `invalid_request` (an invalid file)
 */
export async function findOutputMatches(
  tx: Tx,
  owner: Readonly<{ tenantId: string; sessionId: string }>,
  calls: readonly CallOutput[],
): Promise<readonly OutputMatch[]> {
  const taken = await compareOutputs(tx, owner, calls);
  if (taken.length === 0 || !calls.some(({ given }) => given.kind === 'content')) return taken;
  // Files are stored only if a call has an output to compare them with.
  const kept = await keepClientFiles(
    tx,
    owner,
    calls.map(({ given }) => given),
  );
  return compareOutputs(
    tx,
    owner,
    calls.map((call, at) => ({ ...call, given: kept[at] ?? call.given })),
  );
}

/** Files are the same if they are the same blob. */
async function compareOutputs(
  tx: Tx,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  calls: readonly CallOutput[],
): Promise<readonly OutputMatch[]> {
  const { rows } = await sql<OutputMatch>`
    select m.run_id as "runId", baton_given(p.answer -> 'given') - 'isError' = baton_given(g.given) as "isSame"
    from (
      select ${sessionId}::uuid as session, "messageId", index, given
      from jsonb_to_recordset(${toWrittenJson(calls)}::jsonb) as g ("messageId" uuid, index int, given jsonb) offset 0
    ) as g
    join messages m on m.id = g."messageId" and m.session_id = g.session and m.tenant_id = ${tenantId}
    join parts p on p.session_id = m.session_id and p.message_id = m.id and p.idx = g.index
    where m.run_id is not null and not m.superseded and p.answer -> 'given' ->> 'kind' in ('output', 'content')
    order by m.seq desc, p.idx`.execute(tx);
  return rows;
}
