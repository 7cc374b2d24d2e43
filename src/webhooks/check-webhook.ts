import type { AgentCatalogue } from '../agents/agent.ts';
import { VARIABLES } from '../platform/settings.ts';
import { type OutboundPolicy, refusePrivateUrl } from '../tools/http/guarded-request.ts';

const PUBLIC_ONLY: OutboundPolicy = { allowPrivate: false, allowedHosts: [] };

/**
 * @param policy absent: public addresses alone
 * @throws BatonError `invalid_request` for a private address
 */
export function refusePrivateWebhook(url: string, policy: OutboundPolicy = PUBLIC_ONLY, field = 'url'): void {
  refusePrivateUrl(url, policy, field, VARIABLES.webhooksAllowedHosts);
}

/** The addresses that the settings allow webhooks to have. */
export const webhookPolicyOf = (
  config: Readonly<{ webhooksAllowPrivate: boolean; webhooksAllowedHosts: readonly string[] }>,
): OutboundPolicy => ({ allowPrivate: config.webhooksAllowPrivate, allowedHosts: config.webhooksAllowedHosts });

type Checked = Readonly<{ url?: string | undefined; agent?: string | null | undefined }>;

/**
 * Refuses a webhook that could never be told anything.
 * @throws BatonError `agent_not_found`, `invalid_request` with the field that is wrong
 */
export async function checkWebhook(
  { agents, webhookPolicy }: Readonly<{ agents: AgentCatalogue; webhookPolicy?: OutboundPolicy }>,
  { url, agent }: Checked,
): Promise<void> {
  if (url !== undefined) refusePrivateWebhook(url, webhookPolicy);
  if (agent !== undefined && agent !== null) (await agents.current()).get(agent);
}
