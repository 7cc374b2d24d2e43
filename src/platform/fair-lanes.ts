export type FairLanes = Readonly<{
  /** Does the work once the tenant has a lane. Settles as the work does. */
  run: <T>(tenantId: string, work: () => Promise<T>) => Promise<T>;
}>;

/**
 * Does work of several tenants in a bounded number of lanes. A lane that is free goes to the tenant that has the fewest,
 * and among these to the one that waits the longest. A tenant has a few lanes at most, so its work, however
 * much and however slow, leaves room for that of others.
 */
export function createFairLanes({ atOnce, perTenant }: Readonly<{ atOnce: number; perTenant: number }>): FairLanes {
  /** In the order of their turns. */
  const waiting = new Map<string, (() => void)[]>();
  const held = new Map<string, number>();
  let lanes = 0;

  const nextTenant = (): string | null => {
    let next: string | null = null;
    let fewest = perTenant;
    for (const tenantId of waiting.keys()) {
      const count = held.get(tenantId) ?? 0;
      if (count < fewest) [next, fewest] = [tenantId, count];
    }
    return next;
  };
  const begin = (): void => {
    while (lanes < atOnce) {
      const tenantId = nextTenant();
      const line = tenantId === null ? undefined : waiting.get(tenantId);
      if (tenantId === null || line === undefined) return;
      const start = line.shift();
      waiting.delete(tenantId);
      if (line.length > 0) waiting.set(tenantId, line);
      lanes += 1;
      held.set(tenantId, (held.get(tenantId) ?? 0) + 1);
      start?.();
    }
  };
  const end = (tenantId: string): void => {
    lanes -= 1;
    const left = (held.get(tenantId) ?? 0) - 1;
    if (left > 0) held.set(tenantId, left);
    else held.delete(tenantId);
    begin();
  };
  return {
    async run(tenantId, work) {
      await new Promise<void>((resolve) => {
        const line = waiting.get(tenantId) ?? [];
        line.push(resolve);
        waiting.set(tenantId, line);
        begin();
      });
      try {
        return await work();
      } finally {
        end(tenantId);
      }
    },
  };
}
