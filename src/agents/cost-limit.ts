import { BatonError, type ErrorRecord } from '../domain/errors.ts';

/** What limits the cost of a run. */
export type CostLimits = Readonly<{
  /** US dollars of the run; null or undefined: no limit. */
  maxCostUsd: number | null | undefined;
  /** Tenants have a quota of cost. */
  hasCostQuota: boolean;
}>;

/** Null where a model without prices may be asked, else why it may not: what it costs would not count. */
export function whyUnpriced(model: string, { maxCostUsd, hasCostQuota }: CostLimits): ErrorRecord | null {
  const limit = maxCostUsd == null ? 'the quota of cost (BATON_TENANT_COST_USD_PER_DAY)' : 'the limit maxCostUsd';
  if (maxCostUsd == null && !hasCostQuota) return null;
  const message = `Nobody knows the price of ${model}, so that ${limit} cannot be kept: give its prices in BATON_MODELS_FILE, or take the limit away.`;
  return { code: 'price_unknown', message };
}

/** @throws BatonError `price_unknown` where a limit of cost could not be kept */
export function refuseUnpriced(model: string, prices: unknown, limits: CostLimits): void {
  const refusal = prices === null ? whyUnpriced(model, limits) : null;
  if (refusal !== null) throw new BatonError(refusal.code, refusal.message);
}
