import type { InboxLimits } from '../domain/run/inbox-limits.ts';
import type { Config } from '../platform/config.ts';
import type { TenantQuota } from '../store/session/quota.ts';

/** The limits that every accepted message keeps to. */
export function messageLimits(config: Config): Readonly<{ quota: TenantQuota; inboxLimits: InboxLimits }> {
  const { tenantTokensPerDay, tenantCostUsdPerDay, tenantStoredBytes, inboxMessages, inboxBytes } = config;
  return {
    quota: { tokensPerDay: tenantTokensPerDay, costUsdPerDay: tenantCostUsdPerDay, storedBytes: tenantStoredBytes },
    inboxLimits: { messages: inboxMessages, bytes: inboxBytes },
  };
}
