import type { MiddlewareHandler } from 'hono';
import type { IncomingHook, IncomingHooks } from '../../agents/incoming-hooks.ts';
import { takeHookRoute } from '../../api/hooks.ts';
import { afterAccepted } from '../../commands/after-commit.ts';
import { serviceActor } from '../../commands/audit.ts';
import { sendMessageIn } from '../../commands/send-message.ts';
import { BatonError } from '../../domain/errors.ts';
import { MAX_MESSAGE_CHARS } from '../../domain/tunables.ts';
import { fillName, fillTemplate } from '../../domain/webhooks/template.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../../http/http-env.ts';
import { slowDown } from '../../http/middleware/identify.ts';
import { createWrongKeys } from '../../http/middleware/wrong-keys.ts';
import { untilGone } from '../../http/request-signal.ts';
import { toAcceptedBody } from '../../http/routes/messages.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { type ChatName, inChatSession } from '../chat-session.ts';
import { readHookBody } from './hook-body.ts';
import { signatureHeaderOf, verifiedId } from './verify.ts';

/** Path of the hooks, with their name. */
export const HOOK_PATH = '/v1/hooks/:name';

const MAX_KEY_CHARS = 200;

/**
 * Finds the hook of a request before its body is read.
 * @throws BatonError `not_found`
 */
export function findHook(hooks: IncomingHooks): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    c.set('hook', hookOf(hooks.get(c.req.param('name') ?? '')));
    return next();
  };
}

/** @throws BatonError `not_found` */
function hookOf(hook: IncomingHook | undefined): IncomingHook {
  if (hook === undefined) throw new BatonError('not_found', 'there is no such hook');
  return hook;
}

export function registerHookRoute(app: BatonApp, { wrongKeys = createWrongKeys(), ...deps }: HttpDeps): void {
  app.openapi(takeHookRoute, async (c) => {
    const { name } = c.req.valid('param');
    const hook = hookOf(c.get('hook'));
    const read = c.get('body');
    const bytes = read?.take() ?? Buffer.alloc(0);
    const headers = c.req.header();
    const id = verifiedId(hook, { headers, bytes, nowMs: Date.now() });
    if (id === null) {
      // The answer may wait, which must not take the room of other senders.
      read?.release();
      await slowDown(c, wrongKeys);
      const header = signatureHeaderOf(hook);
      throw new ProblemError('unauthenticated', `The signature in ${header} is missing, wrong or too old`, {
        headers: { 'www-authenticate': `Signature realm="baton", header="${header}"` },
      });
    }
    read?.moveTo(hook.tenant);
    const body = await readHookBody(bytes, headers['content-type']);
    if (hook.verify === 'github' && headers['x-github-event'] === 'ping') return c.json({ pong: true } as const, 200);
    const { session, content } = fill(hook, body, headers);
    const chat = chatOf(hook, name, session);
    const request = { agentName: hook.agent, signal: untilGone(c) };
    const sent = await inChatSession(deps, chat, request, async (tx, { id: sessionId }) => {
      const accepted = await sendMessageIn(tx, deps, {
        actor: serviceActor(hook.tenant),
        sessionId,
        messageId: derivedId('hook', hook.tenant, name, id),
        content: [{ type: 'text', text: content }],
        delivery: hook.delivery,
        sentBy: 'hook',
      });
      return { sessionId, accepted };
    });
    await afterAccepted(deps, sent.sessionId, sent.accepted);
    return c.json(toAcceptedBody(sent.accepted), 202);
  });
}

/** A template that begins with `key:` names sessions by their keys. What the sender fills in cannot. */
function chatOf({ tenant: tenantId, session: template }: IncomingHook, name: string, session: string): ChatName {
  if (template.startsWith('key:')) return { tenantId, scope: 'key', name: session.slice('key:'.length) };
  return { tenantId, scope: 'hook', name: `${name}:${session}` };
}

/** @throws BatonError `invalid_request` for a body that lacks a value for the templates */
function fill(hook: IncomingHook, body: unknown, headers: Readonly<Record<string, string>>) {
  const session = fillName(hook.session, { body, headers });
  const content = fillTemplate(hook.content, { body, headers });
  if (session.trim() === '' || session.length > MAX_KEY_CHARS) {
    const message = `the session is named by ${hook.session}, which is missing here or too long`;
    throw new BatonError('invalid_request', message, { field: 'body' });
  }
  if (content.trim() === '')
    throw new BatonError('invalid_request', 'nothing for a message is in it', { field: 'body' });
  return { session, content: content.slice(0, MAX_MESSAGE_CHARS) };
}
