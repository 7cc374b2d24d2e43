import type { DisabledReason, WebhookEvent } from './webhook.ts';

type Fields = Readonly<{
  url: string;
  events: readonly WebhookEvent[];
  agent: string | null;
  declaredBy: string | null;
}>;

/** The fields that a webhook of a key is to have. `secret` undefined: the one that it has. */
export type WantedWebhook = Fields & Readonly<{ secret: string | undefined }>;

/** A webhook as it is. */
export type PresentWebhook = Fields & Readonly<{ secret: string; disabledFor: DisabledReason | null }>;

export type WebhookPlan = Readonly<
  { kind: 'keep' } | { kind: 'change'; changes: Partial<Fields> & Readonly<{ secret?: string; enabled?: true }> }
>;

/**
 * What a put does to the webhook of its key: nothing where all is equal. One that an operator has disabled stays so. One
 * that Baton has disabled is enabled by another URL, and one that was no longer declared by any put. Pure.
 */
export function planWebhookPut(present: PresentWebhook, wanted: WantedWebhook): WebhookPlan {
  const { url, secret, events, agent, declaredBy } = wanted;
  const isMoved = url !== present.url;
  const revives =
    present.disabledFor === 'undeclared' || (isMoved && ['gone', 'failing'].includes(present.disabledFor ?? ''));
  const changes = {
    ...(isMoved && { url }),
    ...(secret !== undefined && secret !== present.secret && { secret }),
    ...(!isSame(events, present.events) && { events }),
    ...(agent !== present.agent && { agent }),
    ...(declaredBy !== present.declaredBy && { declaredBy }),
    ...(revives && { enabled: true as const }),
  };
  return Object.keys(changes).length === 0 ? { kind: 'keep' } : { kind: 'change', changes };
}

const isSame = (some: readonly string[], others: readonly string[]): boolean =>
  new Set(some).symmetricDifference(new Set(others)).size === 0;
