import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { answerBudget } from '../../src/domain/answer-budget.ts';
import { MAX_BLOB_BYTES } from '../../src/domain/tunables.ts';
import { createOutflow, type Outflow } from '../../src/http/outflow.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const MIB = 1_048_576;

/** An answer whose bytes the test sets. */
function answer() {
  let bytes = 0;
  let listener = (): void => undefined;
  const made = {
    isDropped: false,
    heldBytes: () => bytes,
    whenChanged(given: () => void) {
      listener = given;
    },
    drop() {
      made.isDropped = true;
      bytes = 0;
    },
    hold(now: number) {
      bytes = now;
      listener();
    },
    /** As most clients take their bytes: without an event. */
    take(taken: number) {
      bytes -= taken;
    },
  };
  return made;
}

describe('the bound of answers that are not taken', () => {
  test('has room for a file of any size for each client, also in a small heap', () => {
    const { all, client } = answerBudget(0);
    expect(client).toBeGreaterThan(MAX_BLOB_BYTES);
    expect(all).toBeGreaterThan(client);
  });

  test('drops the answer whose reader has taken nothing for the longest, and only of that client', () => {
    let nowMs = 0;
    const outflow = createOutflow({ all: 1_000, client: 100 }, () => ++nowMs);
    const [takes, stalled, late, other] = [answer(), answer(), answer(), answer()];
    for (const one of [takes, stalled, late]) outflow.watch('a', one);
    outflow.watch('b', other);
    takes.hold(40);
    stalled.hold(40);
    other.hold(100);
    takes.take(1);
    late.hold(40);
    expect([takes, stalled, late, other].map(({ isDropped }) => isDropped)).toEqual([false, true, false, false]);
    expect(outflow.heldBytes()).toBe(179);
  });

  test('in sum costs the client that holds most', () => {
    const outflow = createOutflow({ all: 100, client: 80 });
    const [much, little, next] = [answer(), answer(), answer()];
    outflow.watch('a', much);
    outflow.watch('b', little);
    outflow.watch('c', next);
    much.hold(80);
    little.hold(10);
    next.hold(20);
    expect([much, little, next].map(({ isDropped }) => isDropped)).toEqual([true, false, false]);
  });

  test('forgets what was taken', () => {
    const outflow = createOutflow({ all: 100, client: 100 });
    const answers = [answer(), answer(), answer()];
    for (const one of answers) {
      outflow.watch('a', one);
      one.hold(90);
      one.take(90);
    }
    expect(answers.some(({ isDropped }) => isDropped)).toBe(false);
    expect(outflow.heldBytes()).toBe(0);
  });
});

/** Notes the most that was held after any change, and how many answers were dropped. */
function noting(outflow: Outflow) {
  const noted = { most: 0, dropped: 0 };
  const watch: Outflow['watch'] = (client, given) =>
    outflow.watch(client, {
      ...given,
      whenChanged: (listener) =>
        given.whenChanged(() => {
          listener();
          noted.most = Math.max(noted.most, outflow.heldBytes());
        }),
      drop() {
        noted.dropped += 1;
        given.drop();
      },
    });
  return { noted, outflow: { ...outflow, watch } };
}

/** Sends the same request on many connections and reads no answer. */
function askWithoutReading(url: string, request: string, count: number): Disposable {
  const { hostname, port } = new URL(url);
  const sockets = Array.from({ length: count }, () => {
    const socket = connect(Number(port), hostname, () => socket.write(request));
    return socket.on('error', () => undefined).pause();
  });
  return { [Symbol.dispose]: () => void sockets.map((socket) => socket.destroy()) };
}

test.each([
  ['on connections of their own', 10, 1],
  ['one after another on a connection', 1, 10],
])(
  'files that nobody reads, asked for %s, stay within the budget, and others are served',
  async (_how, connections, each) => {
    const { noted, outflow } = noting(createOutflow({ all: 40 * MIB, client: 20 * MIB }));
    await using api = await startTestApi({ outflow });
    const [{ headers }, other] = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'b')];
    const upload = async (key: Record<string, string>): Promise<string> => {
      const init = {
        method: 'POST',
        body: Buffer.alloc(8 * MIB, 1),
        headers: { ...key, 'content-type': 'text/plain' },
      };
      const made = (await (await fetch(`${api.url}/v1/blobs`, init)).json()) as { id: string };
      return `/v1/blobs/${made.id}`;
    };
    const [path, othersPath] = [await upload(headers), await upload(other.headers)];
    const session = await api.call('POST', '/v1/sessions', { agent: 'coder' }, other.headers);
    const stream = await fetch(`${api.url}/v1/sessions/${session.body['id']}/events`, {
      headers: { ...other.headers, accept: 'text/event-stream' },
    });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    const request = `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${headers['authorization']}\r\n\r\n`;
    using _unread = askWithoutReading(api.url, request.repeat(each), connections);
    await expect.poll(() => noted.dropped).toBeGreaterThan(0);
    if (each === 1) await expect.poll(() => noted.dropped).toBe(8);
    expect(api.logged.filter(({ event }) => event === 'http_dropped')).toContainEqual({
      event: 'http_dropped',
      reason: 'answers_full',
    });
    expect(noted.most).toBeGreaterThan(8 * MIB);
    expect(noted.most).toBeLessThanOrEqual(20 * MIB);
    const file = await fetch(api.url + othersPath, { headers: other.headers });
    expect((await file.arrayBuffer()).byteLength).toBe(8 * MIB);
    const sent = await api.call(
      'POST',
      `/v1/sessions/${session.body['id']}/messages`,
      { content: 'heard' },
      other.headers,
    );
    let text = '';
    while (!text.includes(String(sent.body['runId']))) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      if (done) throw new Error(`the stream has ended: ${text}`);
      text += value;
    }
    await reader?.cancel();
  },
);
