import { BatonError, type ErrorRecord } from '../domain/errors.ts';

export type CostLimits = Readonly<{
  /** US dollars of the run; null or undefined: no limit. */
  maxCostUsd: number | null | undefined;
  hasCostQuota: boolean;
}>;

/** Null if a model without prices may be asked; else the error, because its cost could not count towards the limit. */
export function whyUnpriced(model: string, { maxCostUsd, hasCostQuota }: CostLimits): ErrorRecord | null {
  const limit = maxCostUsd == null ? 'the quota of cost (BATON_TENANT_COST_USD_PER_DAY)' : 'the limit maxCostUsd';
  if (maxCostUsd == null && !hasCostQuota) return null;
  const message = `No price of ${model} is known, so ${limit} cannot be enforced: give its prices in BATON_MODELS_FILE, or take the limit away.`;
  return { code: 'price_unknown', message };
}

/** @throws BatonError `price_unknown` if a cost limit could not be enforced */
export function refuseUnpriced(model: string, prices: unknown, limits: CostLimits): void {
  const refusal = prices === null ? whyUnpriced(model, limits) : null;
  if (refusal !== null) throw new BatonError(refusal.code, refusal.message);
}
