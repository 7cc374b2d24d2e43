import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testContext } from '@baton-run/server';
import { orderStatus } from './order-status.ts';

test('an order has a status, and an unknown one has none', () => {
  const ask = (order: string) => orderStatus.execute({ order }, testContext());
  assert.equal(ask('order-7'), 'shipped on Monday');
  assert.equal(ask('order-9'), 'There is no order-9.');
});
