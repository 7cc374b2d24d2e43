import { describe, expect, test } from 'vitest';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type SseEvent = Readonly<{ id: string | null; event: string; data: Record<string, unknown> }>;

/** The stream of a session as a browser reads it. Returning from the loop hangs up. */
async function* followEvents(
  api: TestApi,
  path: string,
  headers: Record<string, string> = {},
): AsyncGenerator<SseEvent, void> {
  const hangUp = new AbortController();
  const response = await fetch(api.url + path, { headers, signal: hangUp.signal });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
  let text = '';
  try {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const frames = (text + chunk).split('\n\n');
      text = frames.pop() ?? '';
      yield* frames.map(parseFrame);
    }
  } finally {
    hangUp.abort();
  }
}

function parseFrame(frame: string): SseEvent {
  const field = (name: string): string | null => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1] ?? null;
  return { id: field('id'), event: field('event') ?? '', data: JSON.parse(field('data') ?? '{}') };
}

/** The durable events until the first of the given type. */
async function readUntil(stream: AsyncIterable<SseEvent>, type: string): Promise<SseEvent[]> {
  const events: SseEvent[] = [];
  for await (const event of stream) {
    if (event.id !== null) events.push(event);
    if (event.event === type) return events;
  }
  throw new Error(`the stream ended before ${type}`);
}

async function playRun(api: TestApi): Promise<string> {
  const sessionId = await api.createSession();
  await api.send(sessionId, 'hello');
  await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), 'done');
  return sessionId;
}

describe('following a session', () => {
  test('begins with a snapshot and goes on with what happens', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const stream = followEvents(api, `/v1/sessions/${sessionId}/events`);
    const first = await stream.next();
    expect(first.value).toMatchObject({ id: null, event: 'session:snapshot', data: { data: { sessionId, seq: 0 } } });
    await api.send(sessionId, 'hello');
    const events = await readUntil(stream, 'run:queued');
    expect(events).toMatchObject([{ id: '1', event: 'run:queued', data: { seq: 1, type: 'run:queued' } }]);
  });

  test('replays what came after the given place, and the header beats the query', async () => {
    await using api = await startTestApi();
    const sessionId = await playRun(api);
    const all = await readUntil(followEvents(api, `/v1/sessions/${sessionId}/events?after=0`), 'run:completed');
    expect(all.map((event) => event.id)).toEqual(all.map((_event, index) => String(index + 1)));
    const later = followEvents(api, `/v1/sessions/${sessionId}/events?after=0`, { 'last-event-id': '2' });
    expect(await readUntil(later, 'run:completed')).toEqual(all.slice(2));
  });

  test('gives pages to whoever asks for JSON', async () => {
    await using api = await startTestApi();
    const sessionId = await playRun(api);
    const accept = { accept: 'application/json' };
    const first = await api.call('GET', `/v1/sessions/${sessionId}/events?limit=2`, undefined, accept);
    expect(first).toMatchObject({
      status: 200,
      body: { next: 2, events: [{ seq: 1, type: 'run:queued', runId: expect.stringMatching(/^run_/) }, { seq: 2 }] },
    });
    const rest = await api.call('GET', `/v1/sessions/${sessionId}/events?after=2`, undefined, accept);
    const last = (rest.body['events'] as { seq: number; type: string }[]).at(-1);
    expect(last?.type).toBe('run:completed');
    expect(rest.body['next']).toBe(last?.seq);
    const empty = await api.call('GET', `/v1/sessions/${sessionId}/events?after=${last?.seq}`, undefined, accept);
    expect(empty.body).toEqual({ events: [], next: last?.seq, nextId: `${last?.seq}`, reset: false });
    const id = await api.call('GET', `/v1/sessions/${sessionId}/events?after=1-3fa9c01d&limit=1`, undefined, accept);
    expect(id.body).toMatchObject({ events: [{ seq: 1 }], reset: true });
    const beyond = await api.call(
      'GET',
      `/v1/sessions/${sessionId}/events?after=${Number(last?.seq) + 1}&limit=1`,
      undefined,
      accept,
    );
    expect(beyond.body).toMatchObject({ events: [{ seq: 1 }], reset: true });
    const wrong = await api.call('GET', `/v1/sessions/${sessionId}/events?after=x`, undefined, accept);
    expect(wrong).toMatchObject({
      status: 400,
      body: { errors: [{ message: expect.stringContaining('85-3fa9c01d') }] },
    });
  });

  test('answers HEAD without opening a stream', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const answer = await api.call('HEAD', `/v1/sessions/${sessionId}/events`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
  });

  test.each([
    ['text/event-stream', 'text/event-stream'],
    ['text/*', 'text/event-stream'],
    ['*/*', 'text/event-stream'],
    ['text/html, */*;q=0.1', 'text/event-stream'],
    ['application/json', 'application/json'],
    ['application/json;q=0.9, text/event-stream;q=0.1', 'application/json'],
    ['application/*', 'application/json'],
  ])('Accept: %s is answered with %s', async (accept, type) => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const answer = await api.call('HEAD', `/v1/sessions/${sessionId}/events`, undefined, { accept });
    expect(answer.headers.get('content-type')).toContain(type);
  });
});
