import type { ModelOverride } from '../../src/domain/context/limits/model-entry.ts';
import { createModelBook, type DescribeModel } from '../../src/model/describe-model.ts';
import { openPriceRegistry } from '../../src/model/price-registry.ts';

/** The knowledge about models: the price registry that ships with Baton, and the test's overrides. */
export async function modelBook(overrides: readonly ModelOverride[] = []): Promise<ReturnType<typeof createModelBook>> {
  return createModelBook({ registry: await openPriceRegistry(), overrides });
}

export const describing = async (overrides: readonly ModelOverride[] = []): Promise<DescribeModel> =>
  (await modelBook(overrides)).describeModel;
