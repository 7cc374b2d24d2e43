import { describe, expect, it } from 'vitest';
import type { LentConnection } from '../../src/store/db/bounded-pool.ts';
import { forTenant, lendInTurns } from '../../src/store/db/lend-in-turns.ts';

const client: LentConnection = { query: () => Promise.reject(new Error('asks nothing')), release: () => undefined };

/** Connections of which `most` are lent at a time. `served` has the names of those who have got one, in order. */
function openLine(most: number, withinMs = 600_000) {
  const served: string[] = [];
  const lent = new Map<string, LentConnection>();
  const source = { options: {}, connect: async () => client, end: async () => undefined };
  const inTurns = lendInTurns(source, () => most, withinMs);
  const ask = (tenantId: string, name: string) =>
    forTenant(tenantId, async () => {
      lent.set(name, await inTurns.connect());
      served.push(name);
    });
  return { ask, served, giveBack: (name: string) => lent.get(name)?.release(false) };
}

describe('connections to Postgres', () => {
  it('go to a tenant with one query before the second query of a tenant with many', async () => {
    const { ask, served, giveBack } = openLine(1);
    await ask('large', 'large 1');
    const waiting = [
      ask('large', 'large 2'),
      ask('large', 'large 3'),
      ask('large', 'large 4'),
      ask('small', 'small 1'),
    ];
    for (const [no, name] of ['large 1', 'large 2', 'small 1', 'large 3'].entries()) {
      expect(served.at(-1)).toBe(name);
      giveBack(name);
      await expect.poll(() => served.length).toBe(no + 2);
    }
    await Promise.all(waiting);
    expect(served).toEqual(['large 1', 'large 2', 'small 1', 'large 3', 'large 4']);
  });

  it('are refused to who waits too long, and the next one takes the turn', async () => {
    const { ask, served, giveBack } = openLine(1, 20);
    await ask('a', 'first');
    await expect(ask('a', 'late')).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'none of the 1 connections to Postgres became free within 20 ms',
    });
    giveBack('first');
    await ask('a', 'second');
    expect(served).toEqual(['first', 'second']);
  });

  it('are not lost when the pool has none to give', async () => {
    let refusals = 1;
    const source = {
      options: {},
      connect: async () => {
        if (refusals-- > 0) throw new Error('no');
        return client;
      },
      end: async () => undefined,
    };
    const { connect } = lendInTurns(source, () => 1, 600_000);
    await expect(connect()).rejects.toThrow('no');
    (await connect()).release(false);
    (await connect()).release(false);
  });
});
