import type { AgentCatalogue } from '../agents/agent.ts';
import { serviceActor } from '../commands/audit.ts';
import type { CommandPorts } from '../commands/ports.ts';
import { pauseUndeclaredSchedules, putSchedule } from '../commands/put-schedule.ts';
import { disableUndeclaredWebhooks, type Put, putWebhook } from '../commands/put-webhook.ts';
import { DEFAULT_TENANT_ID } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { WEBHOOK_EVENTS } from '../domain/webhooks/webhook.ts';
import { toScheduleColumns } from '../http/bodies/schedule-body.ts';
import { checkSchedule } from '../schedules/check-schedule.ts';
import { readClock } from '../store/around/schedules.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import type { OutboundPolicy } from '../tools/http/guarded-request.ts';
import { checkWebhook } from '../webhooks/check-webhook.ts';
import type { Declarations, Declared } from './declarations.ts';

type DeclareDeps = Pick<CommandPorts, 'db' | 'newId' | 'log'> &
  Readonly<{ agents: AgentCatalogue; webhookPolicy: OutboundPolicy }>;

const ACTOR = serviceActor(DEFAULT_TENANT_ID);

/**
 * Puts what is declared for the tenant `default`. What is equal stays as it is, so a restart changes nothing, and of any
 * number of processes that start at once one creates it. What was declared under this name before and is not any more
 * stays: a webhook is disabled, a schedule paused.
 * @throws BatonError `config_invalid` that names the place; errors of an unavailable Postgres
 */
export async function declare(deps: DeclareDeps, declarations: Declarations): Promise<void> {
  await declareWebhooks(deps, declarations);
  await declareSchedules(deps, declarations);
}

async function declareWebhooks(deps: DeclareDeps, { declaredBy, webhooks }: Declarations): Promise<void> {
  if (webhooks === null) return;
  const puts = await inOrder(webhooks, async ({ key, url, secret, events = [...WEBHOOK_EVENTS], agent = null }) => {
    await checkWebhook(deps, { url, agent });
    return putWebhook(deps, { actor: ACTOR, key, url, secret, events, agent, declaredBy });
  });
  const keys = webhooks.map(({ fields }) => fields.key);
  const gone = await disableUndeclaredWebhooks(deps, { actor: ACTOR, declaredBy, keys });
  tell(deps, 'webhooks', puts, gone);
}

async function declareSchedules(deps: DeclareDeps, { declaredBy, schedules }: Declarations): Promise<void> {
  if (schedules === null) return;
  const puts = await inOrder(schedules, async ({ key, ...settings }) => {
    await checkSchedule(deps.agents, settings, await readClock(deps.db));
    return putSchedule(deps, { actor: ACTOR, key, columns: toScheduleColumns(settings), declaredBy });
  });
  const keys = schedules.map(({ fields }) => fields.key);
  const gone = await pauseUndeclaredSchedules(deps, { actor: ACTOR, declaredBy, keys });
  tell(deps, 'schedules', puts, gone);
}

async function inOrder<Fields, Result>(
  declared: readonly Declared<Fields>[],
  put: (fields: Fields) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const { place, fields } of declared) {
    try {
      results.push(await put(fields));
    } catch (cause) {
      if (!(cause instanceof BatonError) || isStoreUnavailable(cause)) throw cause;
      throw new BatonError('config_invalid', `${place}: ${cause.message}`, { cause });
    }
  }
  return results;
}

/** A start that changes nothing is not worth a line. */
function tell(
  { log }: DeclareDeps,
  what: 'webhooks' | 'schedules',
  puts: readonly Put<unknown>[],
  gone: readonly string[],
): void {
  const count = (change: Put<unknown>['change']) => puts.filter((put) => put.change === change).length;
  const [created, changed] = [count('created'), count('changed')];
  if (created + changed + gone.length === 0) return;
  log('info', { event: 'declarations_applied', what, created, changed, undeclared: gone.length });
}
