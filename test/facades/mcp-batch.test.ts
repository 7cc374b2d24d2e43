import { expect, test } from 'vitest';
import { createProcessRate } from '../../src/http/middleware/request-rate.ts';
import { startTestApi } from '../http/test-api.ts';
import { createTestKey } from '../support/keys.ts';

const callNo = (id: number) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'coder', arguments: { task: 'Work.' }, task: {} },
});
const accept = 'application/json, text/event-stream';

test('a batch counts as so many requests, and begins nothing once it is too much', async () => {
  await using requestRate = createProcessRate(5, () => 0);
  await using api = await startTestApi({ requestRate });
  const { headers } = await createTestKey(api.db);
  const batch = Array.from({ length: 50 }, (_, id) => callNo(id));
  const { status, body } = await api.call('POST', '/mcp', batch, { ...headers, accept });
  expect([status, body['code']]).toEqual([429, 'rate_limited']);
  expect(await api.db.selectFrom('runs').select('id').execute()).toEqual([]);
});

test('a batch is refused by versions of the protocol that have none', async () => {
  await using api = await startTestApi();
  const newer = await api.call('POST', '/mcp', [callNo(1)], { accept, 'mcp-protocol-version': '2025-06-18' });
  expect([newer.status, newer.body['detail']]).toEqual([400, expect.stringContaining('send each message by itself')]);
  const older = await api.call('POST', '/mcp', [callNo(1), callNo(2)], {
    accept,
    'mcp-protocol-version': '2025-03-26',
  });
  expect(older.status).toBe(200);
  expect(await api.db.selectFrom('runs').select('id').execute()).toHaveLength(2);
});
