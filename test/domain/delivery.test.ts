import { describe, expect, it } from 'vitest';
import { placeMessage, REQUESTED_DELIVERIES, storedDelivery } from '../../src/domain/run/delivery.ts';
import { ACTIVE_RUN_STATUSES } from '../../src/domain/run/run.ts';
import { DELIVERIES } from '../../src/domain/run/session.ts';

const places = (active: Parameters<typeof placeMessage>[1]) =>
  REQUESTED_DELIVERIES.map((requested) => placeMessage(requested, active));

describe('where a message goes', () => {
  it('starts a run where none is active, however it is sent', () => {
    expect(places(null)).toEqual(['start', 'start', 'start', 'start']);
  });

  it.each(['queued', 'running', 'requires_action'] as const)('goes where its sender says beside a %s run', (status) => {
    expect(places({ kind: 'task', status, givesFinalAnswer: false })).toEqual(['join', 'next', 'interrupt', 'refuse']);
  });

  it('is not parked behind a run that was cancelled before it was sent', () => {
    expect(places({ kind: 'task', status: 'cancelling', givesFinalAnswer: false })).toEqual([
      'next',
      'next',
      'next',
      'refuse',
    ]);
  });

  it.each(['queued', 'running'] as const)(
    'is not for a %s run that has nothing left but its final answer',
    (status) => {
      expect(places({ kind: 'task', status, givesFinalAnswer: true })).toEqual(['next', 'next', 'interrupt', 'refuse']);
    },
  );

  it.each(ACTIVE_RUN_STATUSES)('finds no work in a session that only tidies itself up (%s)', (status) => {
    expect(places({ kind: 'maintenance', status, givesFinalAnswer: false })).toEqual(['next', 'next', 'next', 'next']);
  });

  it('is stored as a delivery that the inbox knows', () => {
    expect(REQUESTED_DELIVERIES.map(storedDelivery)).toEqual(['steer', 'followup', 'interrupt', 'steer']);
    for (const requested of REQUESTED_DELIVERIES) expect(DELIVERIES).toContain(storedDelivery(requested));
  });
});
