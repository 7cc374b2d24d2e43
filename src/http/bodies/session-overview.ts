import { z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { RUN_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import { WAIT_KINDS, type Wait } from '../../domain/run/waits-for.ts';
import { MESSAGE_ROLES } from '../../domain/transcript/message.ts';
import type { SessionOverview } from '../../store/lists/session-overviews.ts';
import type { SessionRow } from '../../store/session/sessions.ts';
import { timeBody } from './responses.ts';
import { sessionBody, toSessionBody } from './session-body.ts';

export const waitBody = z
  .object({
    kind: z.enum(WAIT_KINDS).openapi({
      description:
        'A call requires an action (`approval`, `output`, `unknown_outcome`); no worker has taken the work (`worker`); all slots of the tenant are taken (`slot`); the provider gets a pause (`retry`); the context is changed first (`compaction`, `prune`).',
    }),
    since: timeBody.nullable(),
    until: timeBody.nullable(),
    toolNames: z.array(z.string()).openapi({ description: 'Of the calls that require an action.' }),
    count: z.int().openapi({ description: 'Of these calls.' }),
  })
  .openapi('Wait', { description: 'Why an active run does not work on a step.' });

export const listedSessionBody = sessionBody
  .extend({
    externalKey: z.string().nullable().openapi({ description: 'The name that a client of a chat protocol gave it.' }),
    overview: z.object({
      lastWords: z
        .object({ role: z.enum(MESSAGE_ROLES), text: z.string(), at: timeBody })
        .nullable()
        .openapi({ description: 'At most 200 characters; an empty text was too large for a list.' }),
      lastRun: z
        .object({
          id: z.string(),
          kind: z.enum(RUN_KINDS),
          status: z.enum(RUN_STATUSES),
          reason: z.string().nullable(),
          errorCode: z.enum(ERROR_CODES).nullable(),
          steps: z.int(),
          maxSteps: z.int().nullable(),
          createdAt: timeBody,
          startedAt: timeBody.nullable(),
          finishedAt: timeBody.nullable(),
        })
        .nullable(),
      waitsFor: waitBody.nullable(),
      context: z
        .object({ usedTokens: z.int(), usableTokens: z.int(), share: z.number() })
        .nullable()
        .openapi({ description: 'After the last step, prune or compaction.' }),
      queued: z.int().openapi({ description: 'Queued messages, of which at most 1000 are counted.' }),
    }),
  })
  .openapi('ListedSession');

export function toWaitBody(wait: Wait | null): z.infer<typeof waitBody> | null {
  if (wait === null) return null;
  const { since, until, toolNames } = wait;
  return {
    ...wait,
    since: since?.toISOString() ?? null,
    until: until?.toISOString() ?? null,
    toolNames: [...toolNames],
  };
}

/** @param overview undefined: the session was deleted after it was listed */
export function toListedSessionBody(
  row: SessionRow,
  overview: SessionOverview = NOTHING,
): z.infer<typeof listedSessionBody> {
  const { lastWords, lastRun, waitsFor, context, queued } = overview;
  return {
    ...toSessionBody(row),
    externalKey: row.external_key,
    overview: {
      lastWords: lastWords === null ? null : { ...lastWords, at: lastWords.at.toISOString() },
      lastRun: lastRun === null ? null : toLastRun(lastRun),
      waitsFor: toWaitBody(waitsFor),
      context: context === null ? null : { ...context, share: context.usedTokens / Math.max(1, context.usableTokens) },
      queued,
    },
  };
}

const NOTHING: SessionOverview = { lastWords: null, lastRun: null, waitsFor: null, context: null, queued: 0 };

type LastRun = NonNullable<SessionOverview['lastRun']>;

function toLastRun(run: LastRun) {
  const { id, kind, status, reason, errorCode, steps, maxSteps, createdAt, startedAt, finishedAt } = run;
  return {
    id: formatId('run', id),
    kind,
    status,
    reason,
    errorCode: ERROR_CODES.find((known) => known === errorCode) ?? null,
    steps,
    maxSteps,
    createdAt: createdAt.toISOString(),
    startedAt: startedAt?.toISOString() ?? null,
    finishedAt: finishedAt?.toISOString() ?? null,
  };
}
