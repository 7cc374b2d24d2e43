import { sql } from 'kysely';
import { z } from 'zod';
import type { Dependencies } from '../app/dependencies.ts';
import type { OutputFormat } from '../client/client.ts';
import { isStandardSchema, jsonSchemaOf } from '../client/standard-schema.ts';
import { afterChanged } from '../commands/after-commit.ts';
import { serviceActor } from '../commands/audit.ts';
import { type SendMessage, sendMessageIn } from '../commands/send-message.ts';
import { DEFAULT_TENANT_ID } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { jobPayloadSchema } from '../domain/run/job.ts';
import { type SafeError, toSafeError } from '../platform/log.ts';
import { openSteadyConnection, type SteadyConnection } from '../platform/steady-connection.ts';
import { inCallerTransaction } from '../store/db/caller-transaction.ts';
import { LockBusy } from '../store/db/lock-queue.ts';
import type { Baton, SendInOptions } from './contract.ts';
import { prepareSession, readFields } from './opened-session.ts';
import { refuseNoTenant } from './tenant.ts';

/** An interrupt is none of them: the worker of a run can only be told after the commit. */
const DELIVERIES: ReadonlySet<string> = new Set(['steer', 'followup', 'reject']);

const sentSchema = z.object({
  sessionId: z.uuid(),
  eventSeq: z.number().int().positive(),
  job: jobPayloadSchema.nullable(),
});

/** Every role of the database can notify, and so can a newer version. */
function readSent(payload: string): z.infer<typeof sentSchema> | Readonly<{ error: SafeError }> {
  try {
    return sentSchema.parse(JSON.parse(payload));
  } catch (error) {
    // The message of the error would hold a part of the payload.
    return { error: { name: error instanceof Error ? error.name : 'Error' } };
  }
}

/**
 * Sends messages in transactions of the program. Postgres tells this process of a message when its transaction
 * commits, and the process then adds the job. If it is gone by then, the reconciler adds it.
 */
export function createSendIn(deps: Dependencies): AsyncDisposable & Readonly<{ send: Baton['sendIn'] }> {
  const { config, databaseUrl, log } = deps;
  const { schema } = config;
  const channel = `baton_sent:${schema ?? ''}`;
  let listening: Promise<SteadyConnection> | null = null;
  const onError = (error: unknown): void =>
    log('warn', { event: 'database_connection_lost', error: toSafeError(error) });
  const listen = (): Promise<SteadyConnection> => {
    listening ??= openSteadyConnection({
      connectionString: databaseUrl,
      applicationName: 'baton sent',
      prepare: (client) => client.query(`listen ${client.escapeIdentifier(channel)}`),
      onNotification(payload) {
        const sent = readSent(payload);
        if ('error' in sent) return log('warn', { event: 'notification_ignored', channel, error: sent.error });
        const { sessionId, ...changed } = sent;
        afterChanged(deps, sessionId, changed).catch(onError);
      },
      onError,
    }).catch((error: unknown) => {
      listening = null;
      throw error;
    });
    return listening;
  };
  return {
    async send(client, session, content, { tenantId = DEFAULT_TENANT_ID, ...options } = {}) {
      refuseNoTenant(tenantId);
      const message = await readMessage(deps, tenantId, { content, ...options });
      const openSession = await prepareSession(deps, tenantId, session);
      await listen();
      const accepted = await inCallerTransaction(client, schema, async (tx) => {
        const sessionId = await openSession(tx);
        const stored = await sendMessageIn(tx, deps, { ...message, sessionId });
        const notice = JSON.stringify({ sessionId, eventSeq: stored.eventSeq, job: stored.job });
        await sql`select pg_notify(${channel}, ${notice})`.execute(tx);
        return { ...stored, sessionId };
      }).catch(refuseCrowd);
      const { messageId, runId, sessionId, queued, status } = accepted;
      return {
        sessionId: formatId('session', sessionId),
        messageId: formatId('message', messageId),
        runId: formatId('run', runId),
        queued,
        status,
      };
    },
    async [Symbol.asyncDispose]() {
      const connection = await listening?.catch(() => null);
      await connection?.[Symbol.asyncDispose]();
    },
  };
}

type Sent = SendInOptions & Readonly<{ content: unknown }>;

/**
 * The message as the API would take it.
 * @throws BatonError `invalid_request`
 */
async function readMessage(
  { config, newId }: Dependencies,
  tenantId: string,
  { output, delivery = 'steer', ...fields }: Sent,
): Promise<Omit<SendMessage, 'sessionId'>> {
  // The type says it, too, but programs in JavaScript have no types.
  if (!DELIVERIES.has(delivery)) {
    throw new BatonError('invalid_request', `delivery: expected ${[...DELIVERIES].join(', ')}`);
  }
  // Loaded with the first use: workers do not need the schemas of the API.
  const { newMessageBody } = await import('../api/messages.ts');
  const { toParts } = await import('../api/content-field.ts');
  const { toMessageWebhook } = await import('../http/bodies/webhook-body.ts');
  const format = output === undefined ? undefined : toFormat(output);
  const {
    content,
    id = newId(),
    limits,
    webhook,
    output: asked,
  } = readFields(newMessageBody, {
    ...fields,
    ...(format !== undefined && { output: format }),
  });
  const policy = { allowPrivate: config.webhooksAllowPrivate, allowedHosts: config.webhooksAllowedHosts };
  return {
    ...{ actor: serviceActor(tenantId), messageId: id, content: toParts(content), delivery, limits, output: asked },
    webhook: webhook === undefined ? undefined : toMessageWebhook(webhook, policy),
  };
}

/** @throws BatonError `invalid_request` for a schema that its library cannot write as a JSON Schema */
function toFormat(output: NonNullable<SendInOptions['output']>): OutputFormat {
  if (!isStandardSchema(output)) return output;
  try {
    return { schema: jsonSchemaOf(output) };
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : String(cause);
    throw new BatonError('invalid_request', `output: ${words}`, { cause });
  }
}

/** The program holds the transaction, so only the program can begin it again. */
function refuseCrowd(error: unknown): never {
  if (!(error instanceof LockBusy)) throw error;
  throw new BatonError('store_unavailable', 'many transactions wait for this session: roll back and try again', {
    cause: error,
  });
}
