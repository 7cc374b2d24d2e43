import { sql } from 'kysely';
import { z } from 'zod';
import {
  type DroppedAttempt,
  type ProviderResponse,
  providerResponseSchema,
} from '../../domain/model/provider-response.ts';
import type { Db } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import type { Fence } from './claims.ts';

/** Attempts at one step that are looked at. */
const MOST_ATTEMPTS = 20;

/** Notes which response of the provider is the answer of a message. Writes nothing if the claim is lost. */
export async function noteProviderResponse(
  db: Db,
  { runId, epoch, claimId }: Fence,
  messageId: string,
  response: ProviderResponse,
): Promise<void> {
  await sql`
    with held as materialized (
      select session_id from runs where id = ${runId} and epoch = ${epoch} and claim_id = ${claimId} for share
    )
    update messages set provider_response = ${toJson(response)}::jsonb from held
    where id = ${messageId} and messages.session_id = held.session_id`.execute(db);
}

const attemptSchema = z.object({
  response: providerResponseSchema,
  finishReason: z.string().nullable(),
  hasError: z.boolean(),
  superseded: z.boolean(),
});

/** The attempts at a step whose answers are responses of a provider, the newest first. */
export async function readProviderResponses(
  db: Db,
  runId: string,
  stepNo: number,
): Promise<(DroppedAttempt & Readonly<{ superseded: boolean }>)[]> {
  const { rows } = await sql`
    select provider_response as response, finish_reason as "finishReason", error is not null as "hasError", superseded
    from messages where run_id = ${runId} and step_no = ${stepNo} and provider_response is not null
    order by seq desc limit ${MOST_ATTEMPTS}`.execute(db);
  return z.array(attemptSchema).parse(rows);
}
