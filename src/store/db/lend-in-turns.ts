import { AsyncLocalStorage } from 'node:async_hooks';
import { BatonError } from '../../domain/errors.ts';
import type { ConnectionSource } from './bounded-pool.ts';

const tenants = new AsyncLocalStorage<string>();

/** Does work for a tenant. While all connections of a pool are lent, tenants take turns at those that come back. */
export const forTenant = <T>(tenantId: string, work: () => T): T => tenants.run(tenantId, work);

/** Takes the connection that is free now. */
type Take = () => void;

/**
 * Lends at most so many connections of a pool at a time. Once they are lent, each that comes back goes to the next tenant
 * in turn, and so to a tenant with one query before the second query of a tenant with hundreds. Work for no tenant has a
 * turn of its own.
 * @param most connections that may be lent now
 * @returns its `connect` rejects with BatonError `store_unavailable` when none came back for `withinMs`
 */
export function lendInTurns(source: ConnectionSource, most: () => number, withinMs: number): ConnectionSource {
  const line = createLine();
  let lentCount = 0;
  const passOn = (): void => {
    const next = line.takeNext();
    if (next === null) lentCount--;
    else next();
  };
  const waitForTurn = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const message = `none of the ${lentCount} connections to Postgres became free within ${withinMs} ms`;
      const leave = line.join(tenants.getStore() ?? '', take);
      const timer = setTimeout(() => {
        leave();
        reject(new BatonError('store_unavailable', message));
      }, withinMs);
      function take(): void {
        clearTimeout(timer);
        resolve();
      }
    });
  return {
    options: source.options,
    end: () => source.end(),
    async connect() {
      if (lentCount < most()) lentCount++;
      else await waitForTurn();
      try {
        const client = await source.connect();
        return {
          query: (config) => client.query(config),
          release(isBroken) {
            client.release(isBroken);
            passOn();
          },
        };
      } catch (error) {
        passOn();
        throw error;
      }
    },
  };
}

/** Those who wait, in a line of each tenant. The tenants are in the order of their turns. */
function createLine() {
  const lines = new Map<string, Set<Take>>();
  return {
    /** @returns leaves the line */
    join(tenantId: string, waiting: Take): () => void {
      const line = lines.get(tenantId) ?? new Set();
      lines.set(tenantId, line.add(waiting));
      return () => {
        line.delete(waiting);
        if (line.size === 0 && lines.get(tenantId) === line) lines.delete(tenantId);
      };
    },
    takeNext(): Take | null {
      const [turn] = lines;
      if (turn === undefined) return null;
      const [tenantId, line] = turn;
      const [next = null] = line;
      lines.delete(tenantId);
      if (next !== null) line.delete(next);
      if (line.size > 0) lines.set(tenantId, line);
      return next;
    },
  };
}
