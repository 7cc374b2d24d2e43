import type { RequestedDelivery } from '../domain/run/delivery.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import type { MessageSender } from '../domain/run/run.ts';
import type { RunLimits } from '../domain/run/run-limits.ts';
import { limitsFor } from '../domain/run/session-token.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import type { MessageWebhook } from '../domain/webhooks/message-webhook.ts';
import { type AcceptedMessage, acceptMessage, findAccepted } from '../store/changes/inbox.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { afterAccepted } from './after-commit.ts';
import { type Actor, auditAct, runPath, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

export type SendMessage = Readonly<{
  actor: Actor;
  sessionId: string;
  /** The key of the command: the same id again is the same message. */
  messageId: string;
  /** Files by data URL, http(s) URL or `@blob:` reference. */
  content: readonly UserPart[];
  delivery: RequestedDelivery;
  /** Limits that the request names. Of a caller with a token they only lower those of the token. */
  limits?: RunLimits | undefined;
  webhook?: MessageWebhook | undefined;
  output?: OutputFormat | undefined;
  /** The schedule, hook or child that sends the message. Undefined: a caller sends it. */
  sentBy?: MessageSender;
  /** The id for a run that this message starts. Default: a new one. */
  runId?: string;
}>;

/** The state of a message in its session after the command. */
export type SentMessage = AcceptedMessage;

/**
 * Sends a message to a session, in the caller's transaction. After the commit the caller passes the result to
 * `afterAccepted`.
 *
 * Locks the session. Promises that the message is stored once, within the tenant's quota and the limits of the inbox,
 * that a run takes it up, and that an interrupt, named limits and a webhook are in the audit log.
 * @throws BatonError `not_found`, `session_busy` (delivery `reject`), `inbox_full`, `conflict` (the id is taken),
 * `quota_exceeded`, `storage_exceeded`, `invalid_request` (an invalid file)
 */
export async function sendMessageIn(tx: Tx, ports: CommandPorts, message: SendMessage): Promise<SentMessage> {
  const { actor, limits = {}, runId = ports.newId(), ...content } = message;
  const accepted = await acceptMessage(tx, {
    ...content,
    tenantId: actor.tenantId,
    runId,
    ...limitsFor(actor.session?.grant, limits),
    quota: ports.quota,
    inboxLimits: ports.inboxLimits,
  });
  if (accepted.cancelled !== null)
    await auditAct(tx, actor, 'run:cancel', `${runPath(accepted.cancelled.runId)}/cancel`);
  const path = `${sessionPath(message.sessionId)}/messages`;
  if (Object.keys(limits).length > 0) await auditAct(tx, actor, 'message:limits', path);
  if (message.webhook !== undefined) await auditAct(tx, actor, 'message:webhook', path);
  return accepted;
}

/** Sends a message to a session: see `sendMessageIn`. */
export async function sendMessage(ports: CommandPorts, message: SendMessage): Promise<SentMessage> {
  const accepted = await inTransaction(ports.db, (tx) => sendMessageIn(tx, ports, message));
  await afterAccepted(ports, message.sessionId, accepted);
  return accepted;
}

/**
 * The present state of a message that was sent before. Null: it was removed since.
 *
 * Locks the session, and writes nothing.
 * @throws BatonError `not_found`; `conflict` (it belongs to another session)
 */
export const findSentIn = (
  tx: Tx,
  message: Readonly<{ tenantId: string; sessionId: string; messageId: string }>,
): Promise<SentMessage | null> => findAccepted(tx, message);
