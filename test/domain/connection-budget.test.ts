import { describe, expect, it } from 'vitest';
import { connectionNeeds, judgeConnections } from '../../src/domain/connection-budget.ts';

const PARTS = { poolConnections: 10, jobKinds: 3, hasRedis: true, queuePoolConnections: 4 };
const sum = (parts: Parameters<typeof connectionNeeds>[0]) =>
  Object.values(connectionNeeds(parts)).reduce((total, count) => total + count, 0);

describe('what a process may open', () => {
  it('is its pool where it serves the API and Redis does the rest', () => {
    expect(sum({ ...PARTS, jobKinds: 0 })).toBe(10);
  });

  it('is one more for the lock of a worker', () => {
    expect(sum(PARTS)).toBe(11);
  });

  it('holds live events and the pool of the queues without Redis', () => {
    expect(connectionNeeds({ ...PARTS, jobKinds: 0, hasRedis: false })).toMatchObject({ liveEvents: 2, queues: 4 });
  });

  it('holds a listener per kind of job without Redis', () => {
    expect(connectionNeeds({ ...PARTS, hasRedis: false })).toMatchObject({ jobWorkers: 3 });
    expect(connectionNeeds({ ...PARTS, jobKinds: 1, hasRedis: false })).toMatchObject({ jobWorkers: 1 });
  });
});

describe('a process with 11 connections', () => {
  const needs = connectionNeeds(PARTS);
  const room = (maxConnections: number, inUse: number) => ({ maxConnections, reservedConnections: 3, inUse });

  it.each([
    [14, 0, 'yes'],
    [13, 0, 'never'],
    [13, 13, 'never'],
    [100, 86, 'yes'],
    [100, 87, 'not_now'],
  ] as const)('on a server with %i, of which 3 are reserved and %i in use: %s', (maxConnections, inUse, fits) => {
    const verdict = judgeConnections(needs, room(maxConnections, inUse));
    expect(verdict).toEqual({ fits, needed: 11, allowed: maxConnections - 3, inUse });
  });
});
