import { sql } from 'kysely';
import { z } from 'zod';
import { questionItemSchema } from '../../domain/transcript/call-question.ts';
import { jsonSchema } from '../../domain/transcript/message.ts';
import { ASKED_KINDS } from '../../domain/transcript/required-action.ts';
import { MAX_PAGE_CONTENT_BYTES } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';

/** Characters of the user's last words. */
const WORDS_CHARS = 500;
/** Bytes of a message beyond which none of it is shown: a list must not read megabytes. */
const WORDS_BYTES = 65_536;

const callSchema = z.object({
  messageId: z.string(),
  index: z.int(),
  kind: z.enum(ASKED_KINDS),
  toolName: z.string(),
  args: jsonSchema,
  questions: z.array(questionItemSchema).nullable(),
  runId: z.string(),
  sessionId: z.string(),
  agent: z.string(),
  title: z.string().nullable(),
  firstWords: z.string().nullable(),
  key: z.string().nullable(),
  step: z.int(),
  askedAt: z.date(),
  expiresAt: z.date().nullable(),
  words: z.string().nullable(),
  wordsAt: z.date().nullable(),
});
export type WaitingCall = z.infer<typeof callSchema>;

export type WaitingCallFilter = Readonly<{
  tenantId: string;
  limit: number;
  /** Only calls after this one in the list. */
  after?: Readonly<{ messageId: string; index: number }>;
}>;

/**
 * The calls of a tenant that require an action, oldest step first. At most `limit`; fewer if they are large, but at least
 * one if any is left.
 */
export async function listWaitingCalls(db: Db, { tenantId, limit, after }: WaitingCallFilter): Promise<WaitingCall[]> {
  const place = after === undefined ? sql`` : sql`and (message_id, idx) > (${after.messageId}::uuid, ${after.index})`;
  // The ids of messages are made in the order of time.
  const { rows } = await sql`
    select page.message_id as "messageId", page.idx as index, page.required_action as kind,
      page.content ->> 'toolName' as "toolName", page.content -> 'input' as args,
      page.question -> 'items' as questions, runs.id as "runId",
      page.session_id as "sessionId", sessions.agent_name as agent, sessions.title,
      sessions.first_words as "firstWords", sessions.external_key as key, messages.step_no as step,
      coalesce(messages.finished_at, messages.created_at) as "askedAt", runs.approval_expires_at as "expiresAt",
      said.words, said.at as "wordsAt"
    from (
      select *, row_number() over by_age as no, sum(content_bytes) over by_age as bytes from (
        select message_id, idx, session_id, content, content_bytes, required_action, question from parts
        where tenant_id = ${tenantId} and required_action <> 'child' and answer is null
          and state in ('awaiting_approval', 'awaiting_output', 'unknown') ${place}
        order by message_id, idx limit ${limit}
      ) as waiting
      window by_age as (order by message_id, idx rows unbounded preceding)
    ) as page
    join messages on messages.id = page.message_id and messages.session_id = page.session_id
    join runs on runs.id = messages.run_id and runs.status = 'requires_action'
    join sessions on sessions.id = page.session_id
    left join lateral (
      select enqueued_at as at, case when content_bytes > ${WORDS_BYTES} then '' else (
        select left(string_agg(part ->> 'text', ' '), ${WORDS_CHARS}) from jsonb_array_elements(content) as part
        where part ->> 'type' = 'text') end as words
      from inbox where session_id = page.session_id and consumed_message_seq is not null order by seq desc limit 1
    ) as said on true
    where page.no = 1 or page.bytes <= ${MAX_PAGE_CONTENT_BYTES} order by page.message_id, page.idx`.execute(db);
  return z.array(callSchema).parse(rows);
}
