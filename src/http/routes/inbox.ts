import type { z } from '@hono/zod-openapi';
import { toCursor } from '../../api/cursor.ts';
import { listWaitingCallsRoute, type waitingCallBody } from '../../api/inbox.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { nameOfSession } from '../../domain/run/session-name.ts';
import { listWaitingCalls, type WaitingCall } from '../../store/lists/waiting-calls.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerInboxRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listWaitingCallsRoute, async (c) => {
    const { cursor, limit } = c.req.valid('query');
    const after = cursor && { messageId: cursor.messageId, index: cursor.index };
    const calls = await listWaitingCalls(db, { tenantId: tenantOf(c), limit, ...(after && { after }) });
    const last = calls.at(-1);
    // A page may be short because its calls are large or are being closed, so only an empty one is known to be the last.
    const nextCursor =
      last === undefined ? null : toCursor({ list: 'inbox', messageId: last.messageId, index: last.index });
    return c.json({ calls: calls.map(toBody), nextCursor }, 200);
  });
}

function toBody({ index, words, wordsAt, askedAt, expiresAt, ...call }: WaitingCall): z.infer<typeof waitingCallBody> {
  return {
    id: formatCallId(call.messageId, index),
    kind: call.kind,
    toolName: call.toolName,
    args: call.args,
    questions: call.questions,
    messageId: formatId('message', call.messageId),
    runId: formatId('run', call.runId),
    sessionId: formatId('session', call.sessionId),
    agent: call.agent,
    sessionName: nameOfSession(call),
    title: call.title,
    step: call.step,
    askedAt: askedAt.toISOString(),
    expiresAt: expiresAt?.toISOString() ?? null,
    userWords: wordsAt === null ? null : { text: words ?? '', at: wordsAt.toISOString() },
  };
}
