import { sql } from 'kysely';
import { z } from 'zod';
import type { Dependencies } from '../app/dependencies.ts';
import { afterChanged } from '../commands/after-commit.ts';
import { serviceActor } from '../commands/audit.ts';
import { sendMessageIn } from '../commands/send-message.ts';
import { DEFAULT_TENANT_ID } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId, parseId } from '../domain/ids.ts';
import { jobPayloadSchema } from '../domain/run/job.ts';
import { runLimitsSchema } from '../domain/run/run-limits.ts';
import { type SafeError, toSafeError } from '../platform/log.ts';
import { openSteadyConnection, type SteadyConnection } from '../platform/steady-connection.ts';
import { inGivenTransaction } from '../store/db/given-transaction.ts';
import { OutOfTurn } from '../store/db/lock-turns.ts';
import type { Baton } from './contract.ts';

/** Of one message; the same as by the API. */
const MAX_CONTENT_CHARS = 500_000;

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
  const { config, databaseUrl, log, newId } = deps;
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
    async send(client, session, content, { tenantId = DEFAULT_TENANT_ID, delivery = 'steer', limits = {} } = {}) {
      const sessionId = parseId('session', session);
      if (sessionId === null) throw new BatonError('not_found', `${JSON.stringify(session)} is no id of a session`);
      if (content === '' || content.length > MAX_CONTENT_CHARS) {
        throw new BatonError('invalid_request', `content: expected 1 to ${MAX_CONTENT_CHARS} characters`);
      }
      // The type says it, too, but programs in JavaScript have no types.
      if (!DELIVERIES.has(delivery)) {
        throw new BatonError('invalid_request', `delivery: expected ${[...DELIVERIES].join(', ')}`);
      }
      const message = {
        ...{ actor: serviceActor(tenantId), sessionId, messageId: newId(), delivery },
        content: [{ type: 'text', text: content }] as const,
        limits: runLimitsSchema.parse(limits),
      };
      await listen();
      const accepted = await inGivenTransaction(client, schema, async (tx) => {
        const stored = await sendMessageIn(tx, deps, message);
        const notice = JSON.stringify({ sessionId, eventSeq: stored.eventSeq, job: stored.job });
        await sql`select pg_notify(${channel}, ${notice})`.execute(tx);
        return stored;
      }).catch(refuseCrowd);
      const { messageId, runId, queued, status } = accepted;
      return { messageId: formatId('message', messageId), runId: formatId('run', runId), queued, status };
    },
    async [Symbol.asyncDispose]() {
      const connection = await listening?.catch(() => null);
      await connection?.[Symbol.asyncDispose]();
    },
  };
}

/** The program holds the transaction, so only the program can begin it again. */
function refuseCrowd(error: unknown): never {
  if (!(error instanceof OutOfTurn)) throw error;
  throw new BatonError('store_unavailable', 'many transactions wait for this session: roll back and try again', {
    cause: error,
  });
}
