import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBackend } from '../../examples/backend/server.ts';
import { type ChatService, startChatService } from '../facades/ui-chat-fixture.ts';
import { exchangeRaw } from '../http/raw-exchange.ts';

const stack = new AsyncDisposableStack();
let started: ChatService;
let url: string;

beforeAll(async () => {
  started = stack.use(await startChatService([{ name: 'reviewer' }]));
  url = stack.use(await startBackend({ batonUrl: started.url, agent: 'reviewer' })).url;
});
afterAll(() => stack.disposeAsync());

const JSON_TYPE = { 'content-type': 'application/json' };

const ask = async (body: object) => {
  const response = await fetch(`${url}/reviews`, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
};

it('submits and waits, and does the same work only once, however often it is asked', async () => {
  started.service.simulator.script('reviewer', [{ text: 'Well written.' }, { text: 'Never said.' }]);
  const review = { id: 'order-7', text: 'Once upon a time.' };
  const done = { status: 200, body: { status: 'completed', answer: 'Well written.' } };
  expect(await Promise.all([ask(review), ask(review)])).toEqual([done, done]);
  expect(await ask(review)).toEqual(done);
  expect(started.service.simulator.requests).toHaveLength(1);
});

it('reads what the run said last, also where the transcript is longer than a page of it', async () => {
  const review = { id: 'order-9', text: 'Twice upon a time.' };
  const done = { status: 200, body: { status: 'completed', answer: 'Well written.' } };
  expect(await ask(review)).toEqual(done);
  const { db } = started.service.deps;
  const session = db.selectFrom('sessions').select('id').where('title', '=', 'Review order-9');
  const { id } = await session.executeTakeFirstOrThrow();
  await sql`update messages set seq = seq + 450 where session_id = ${id}`.execute(db);
  await sql`insert into messages (id, session_id, seq, role, finish_reason)
    select gen_random_uuid(), ${id}, n, 'assistant', 'stop' from generate_series(1, 450) n`.execute(db);
  await sql`insert into messages (id, session_id, seq, role) values (gen_random_uuid(), ${id}, 460, 'user')`.execute(
    db,
  );
  expect(await ask(review)).toEqual(done);
});

it('takes requests of programs of this machine alone, and takes nothing that a page of another site may send', async () => {
  const { host } = new URL(url);
  const requests = started.service.simulator.requests.length;
  const body = JSON.stringify({ id: 'order-10', text: 'x' });
  const statusOf = async (fields: Readonly<Record<string, string>>, target = '/reviews', sent = body) => {
    const length = { 'content-length': String(Buffer.byteLength(sent)), connection: 'close' };
    const head = Object.entries({ host, ...JSON_TYPE, ...length, ...fields }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const answer = await exchangeRaw(url, [`POST ${target} HTTP/1.1`, ...head, '', sent].join('\r\n'));
    return Number(answer.split(' ')[1]);
  };
  expect(await statusOf({ host: 'evil.example' })).toBe(403);
  expect(await statusOf({ origin: 'http://evil.example' })).toBe(403);
  expect(await statusOf({ origin: 'null' })).toBe(403);
  expect(await statusOf({ 'content-type': 'text/plain' })).toBe(415);
  expect(await statusOf({ 'content-type': 'application/x-www-form-urlencoded' })).toBe(415);
  expect(await statusOf({}, '/other')).toBe(404);
  expect(await statusOf({}, '/reviews', `{"id":"${'x'.repeat(2_000_000)}"}`)).toBe(413);
  expect(await statusOf({}, '/reviews', '{')).toBe(400);
  expect(started.service.simulator.requests).toHaveLength(requests);
});

it('says what of a request is wrong, and by which code the service refuses', async () => {
  expect(await ask({ id: 7 })).toMatchObject({ status: 400 });
  expect(await ask({ id: 'order-8', text: 'x'.repeat(1_500_000) })).toMatchObject({
    status: 400,
    body: { code: 'invalid_request' },
  });
});
