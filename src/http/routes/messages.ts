import type { z } from '@hono/zod-openapi';
import { toParts } from '../../api/content-field.ts';
import { acceptedBody, listMessagesRoute, sendMessageRoute } from '../../api/messages.ts';
import { afterAccepted } from '../../commands/after-commit.ts';
import { type SentMessage, sendMessageIn } from '../../commands/send-message.ts';
import { formatId } from '../../domain/ids.ts';
import { findSession } from '../../store/session/sessions.ts';
import {
  hasMessagesAfter,
  hasMessagesBefore,
  listMessages,
  listNewestMessages,
} from '../../store/transcript/messages.ts';
import { toMessageBody } from '../bodies/message-body.ts';
import { toMessageWebhook } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { refuseBeyondToken } from '../middleware/token-caller.ts';

export function registerMessageRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId } = deps;

  app.openapi(sendMessageRoute, async (c) => {
    const { content, id, delivery = 'steer', limits = {}, output, webhook: hook } = c.req.valid('json');
    const caller = c.get('caller');
    refuseBeyondToken(caller, { output, webhook: hook });
    const webhook = hook === undefined ? undefined : toMessageWebhook(hook, deps.webhookPolicy);
    const sessionId = c.req.valid('param').id;
    const sent = { sessionId, content, id, delivery, limits, output, webhook };
    const submission = { route: sendMessageRoute, request: sent, answer: acceptedBody };
    let accepted: SentMessage | undefined;
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const message = { actor: caller, sessionId, messageId: id ?? newId(), content: toParts(content) };
      accepted = await sendMessageIn(tx, deps, { ...message, delivery, limits, webhook, output });
      return toAcceptedBody(accepted);
    });
    if (accepted !== undefined) await afterAccepted(deps, sessionId, accepted);
    return c.json(body, 202, headers);
  });

  app.openapi(listMessagesRoute, async (c) => {
    const sessionId = c.req.valid('param').id;
    const { after = 0, before = null, order = 'asc', runId, limit } = c.req.valid('query');
    const tenantId = tenantOf(c);
    await findSession(db, tenantId, sessionId);
    const page =
      before === null && order === 'asc'
        ? await listMessages(db, tenantId, sessionId, { afterSeq: after, limit, runId })
        : await listNewestMessages(db, tenantId, sessionId, { limit, beforeSeq: before, runId });
    const [first, last] = [page.at(0)?.seq ?? null, page.at(-1)?.seq ?? null];
    const place = { tenantId, sessionId, runId };
    const next = last !== null && (await hasMessagesAfter(db, { ...place, seq: last })) ? last : null;
    const previous = first !== null && (await hasMessagesBefore(db, { ...place, seq: first })) ? first : null;
    const messages = (order === 'asc' ? page : page.toReversed()).map(toMessageBody);
    return c.json({ messages, next, previous }, 200);
  });
}

export function toAcceptedBody({
  messageId,
  runId,
  queued,
  position,
  status,
}: SentMessage): z.infer<typeof acceptedBody> {
  return { messageId: formatId('message', messageId), runId: formatId('run', runId), queued, position, status };
}
