import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { LogEvent } from '../../src/platform/log.ts';
import { sayOnceAMinute } from '../../src/platform/once-a-minute.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const failure = (queue: string, message: string): LogEvent => ({
  event: 'queue_error',
  queue,
  error: { name: 'ReplyError', message },
});

function start() {
  const said: object[] = [];
  return { said, ...sayOnceAMinute((_level, event) => void said.push(event)) };
}

it('a failure that repeats is said once for each cause and minute, with its count', () => {
  const { said, log } = start();
  for (let at = 0; at < 75_000; at += 1) log('warn', failure('steps', `OOM at ${at}`));
  log('warn', failure('prunes', 'OOM at 1'));
  log('warn', failure('steps', 'READONLY'));
  expect(said).toHaveLength(3);
  vi.advanceTimersByTime(60_000);
  expect(said.slice(3)).toEqual([{ ...failure('steps', 'OOM at 74999'), repeated: 74_999 }]);
  log('warn', failure('steps', 'OOM at 1'));
  expect(said, 'it goes on').toHaveLength(4);
  vi.advanceTimersByTime(60_000);
  expect(said.slice(4)).toEqual([{ ...failure('steps', 'OOM at 1'), repeated: 1 }]);
  vi.advanceTimersByTime(600_000);
  expect(said).toHaveLength(5);
  log('warn', failure('steps', 'OOM at 2'));
  expect(said, 'a new one is said at once').toHaveLength(6);
});

it('facts of one run or request, and events without a failure, are all said', () => {
  const { said, log } = start();
  for (let at = 0; at < 3; at += 1) {
    log('error', { event: 'job_failed', runId: '0199d3f4-0000-7000-8000-000000000000', error: { name: 'Error' } });
    log('error', request(500, at));
    log('info', { event: 'agents_changed', agents: 1 });
  }
  expect(said).toHaveLength(9);
});

const request = (status: number, at: number): LogEvent => {
  const of = { method: at % 2 === 0 ? 'GET' : 'POST', path: `/v1/runs/${at}`, requestId: `req_${at}` };
  return { event: 'http_request_failed', status, ...of, error: { name: 'Error', message: 'Postgres is away' } };
};

it('requests that fail because a store is away are one cause', () => {
  const { said, log } = start();
  for (let at = 0; at < 1_000; at += 1) log('error', request(503, at));
  expect(said).toHaveLength(1);
  vi.advanceTimersByTime(60_000);
  expect(said[1]).toMatchObject({ requestId: 'req_999', repeated: 999 });
});

it('facts that others can repeat at will are said once, too', () => {
  const { said, log } = start();
  for (let at = 0; at < 1_000; at += 1) {
    log('info', { event: 'mcp_server_connected', server: 'docs', tools: at });
    log('error', { event: 'authenticate_failed', reason: 'late' });
    log('warn', { event: 'worker_lock_lost', workerId: 'w' });
    log('warn', { event: 'http_dropped', reason: at % 2 === 0 ? 'intake_full' : 'door_full' });
  }
  log('info', { event: 'mcp_server_connected', server: 'other', tools: 1 });
  expect(said).toHaveLength(6);
});

it('says what it has counted when it is disposed', () => {
  const { said, ...patient } = start();
  for (let at = 0; at < 3; at += 1) patient.log('warn', failure('steps', 'OOM'));
  patient[Symbol.dispose]();
  expect(said).toEqual([failure('steps', 'OOM'), { ...failure('steps', 'OOM'), repeated: 2 }]);
});

it('tells a bounded number of causes apart', () => {
  const { said, log } = start();
  const word = (at: number): string => String.fromCodePoint(0x4e00 + at);
  for (let at = 0; at < 5_000; at += 1) log('warn', failure('steps', word(at)));
  expect(said.length).toBeLessThan(1_100);
});
