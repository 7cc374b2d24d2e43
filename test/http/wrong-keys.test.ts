import { expect, test } from 'vitest';
import { createWrongKeys } from '../../src/http/middleware/wrong-keys.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const NEVER = new AbortController().signal;

/** The delay of answers to wrong keys, with a clock that stands still. `send` returns the delays in milliseconds. */
function watched() {
  const waits: number[] = [];
  let now = 1_000_000;
  const wrongKeys = createWrongKeys({ nowMs: () => now, wait: async (durationMs) => void waits.push(durationMs) });
  const send = async (count: number, address = '192.0.2.1') => {
    for (let n = 0; n < count; n++) await wrongKeys.slowDown(address, NEVER);
    return waits.splice(0);
  };
  const pass = (durationMs: number) => {
    now += durationMs;
  };
  return { send, pass };
}

test('sixty wrong keys of an address in a minute are answered at once, each one after that later, up to 5 s', async () => {
  const { send, pass } = watched();
  expect(await send(60)).toEqual([]);
  expect(await send(7)).toEqual([1_000, 2_000, 3_000, 4_000, 5_000, 5_000, 5_000]);
  expect(await send(1, '192.0.2.2')).toEqual([]);
  pass(5_000);
  expect(await send(1)).toEqual([1_000]);
  pass(61_000);
  expect(await send(60)).toEqual([]);
});

test('addresses of one network of IPv6 are one', async () => {
  const { send } = watched();
  expect(await send(60, '2001:db8::1')).toEqual([]);
  expect(await send(1, '2001:db8:0:0:5::9')).toEqual([1_000]);
  expect(await send(1, '2001:db8:0:1::1')).toEqual([]);
  expect(await send(61, '::ffff:192.0.2.1')).toEqual([1_000]);
  expect(await send(1, '::ffff:192.0.2.2')).toEqual([]);
});

test('as many answers are held back as are no burden; more are refused at once', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const wrongKeys = createWrongKeys({ nowMs: () => 0, wait: () => promise });
  for (let n = 0; n < 60; n++) await wrongKeys.slowDown('a', NEVER);
  const held = Array.from({ length: 1_000 }, () => wrongKeys.slowDown('a', NEVER));
  expect(await wrongKeys.slowDown('a', NEVER)).toBe(false);
  resolve();
  expect(new Set(await Promise.all(held))).toEqual(new Set([true]));
});

test('of very many addresses the one that was heard of last is known', async () => {
  const { send } = watched();
  await send(60, 'first');
  for (let n = 0; n < 10_000; n++) await send(1, `address ${n}`);
  expect(await send(59, 'address 9999')).toEqual([]);
  expect(await send(1, 'address 9999')).toEqual([1_000]);
  expect(await send(60, 'first')).toEqual([]);
});

test('a wrong key waits for its answer, and a good one of the same address is let in meanwhile', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const asked: string[] = [];
  const slowDown = async (address: string) => {
    asked.push(address);
    await promise;
    return asked.length === 1;
  };
  await using api = await startTestApi({ wrongKeys: { slowDown } });
  const key = await createTestKey(api.db);
  const ask = (headers: Record<string, string>) => api.call('GET', '/v1/agents', undefined, headers);
  let isAnswered = false;
  const wrong = ask({ authorization: 'Bearer baton_wrong' }).finally(() => {
    isAnswered = true;
  });
  expect((await ask(key.headers)).status).toBe(200);
  expect(isAnswered).toBe(false);
  resolve();
  expect((await wrong).status).toBe(401);
  expect(asked).toEqual(['127.0.0.1']);
  const { status, headers, body } = await ask({ authorization: 'Bearer baton_wrong' });
  expect([status, body['code'], headers.get('retry-after')]).toEqual([429, 'rate_limited', '5']);
});
