import type { z } from '@hono/zod-openapi';
import type { listedSessionBody, waitBody } from '../../api/session-body.ts';
import { ERROR_CODES } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { Wait } from '../../domain/run/waits-for.ts';
import type { Hit } from '../../store/lists/message-hits.ts';
import type { SessionOverview } from '../../store/lists/session-overviews.ts';
import type { SessionRow } from '../../store/session/sessions.ts';
import { toSessionBody } from './session-body.ts';

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
  hit?: Hit,
): z.infer<typeof listedSessionBody> {
  const { lastWords, lastRun, waitsFor, context, queued } = overview;
  return {
    ...toSessionBody(row),
    externalKey: row.external_key,
    hit: hit === undefined ? null : toHit(hit),
    overview: {
      lastWords: lastWords === null ? null : { ...lastWords, at: lastWords.at.toISOString() },
      lastRun: lastRun === null ? null : toLastRun(lastRun),
      waitsFor: toWaitBody(waitsFor),
      context: context === null ? null : { ...context, share: context.usedTokens / Math.max(1, context.usableTokens) },
      queued,
    },
  };
}

const toHit = ({ messageId, seq, role, text }: Hit) => ({
  messageId: formatId('message', messageId),
  seq,
  role,
  text,
});

const NOTHING: SessionOverview = { lastWords: null, lastRun: null, waitsFor: null, context: null, queued: 0 };

type LastRun = NonNullable<SessionOverview['lastRun']>;

function toLastRun(run: LastRun) {
  const { id, kind, status, reason, errorCode, steps, maxSteps, createdAt, startedAt, finishedAt } = run;
  return {
    id: formatId('run', id),
    kind,
    status,
    reason,
    errorCode: ERROR_CODES.find((code) => code === errorCode) ?? null,
    steps,
    maxSteps,
    createdAt: createdAt.toISOString(),
    startedAt: startedAt?.toISOString() ?? null,
    finishedAt: finishedAt?.toISOString() ?? null,
  };
}
