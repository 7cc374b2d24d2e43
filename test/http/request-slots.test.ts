import { Hono } from 'hono';
import { describe, expect, test } from 'vitest';
import type { StreamItem } from '../../src/events/stream-item.ts';
import type { HttpEnv } from '../../src/http/http-env.ts';
import { takeRequestSlots } from '../../src/http/middleware/request-slots.ts';
import { sseResponse } from '../../src/http/sse.ts';
import { eventually } from '../support/eventually.ts';

/** An app whose requests end when they are told to; `begun` has their paths in order. */
function openApp(atOnce: number, turnMs = 600_000) {
  const begun: string[] = [];
  const endings = new Map<string, () => void>();
  const app = new Hono<HttpEnv>();
  app.use((c, next) => {
    const tenantId = c.req.header('tenant');
    if (tenantId !== undefined) c.set('caller', { tenantId, scopes: [], keyId: null });
    return next();
  });
  app.use(takeRequestSlots(atOnce, turnMs));
  app.get('/fails', () => {
    throw new Error('on purpose');
  });
  app.on(['GET', 'POST'], ['/v1/runs/:id/wait', '/v1/chat/completions'], async (c) => {
    begun.push(c.req.path);
    await new Promise<void>((resolve) => endings.set(c.req.path, resolve));
    c.get('freeSlot')?.();
    await new Promise<void>((resolve) => endings.set(c.req.path, resolve));
    return c.text('waited');
  });
  app.get('/v1/sessions/:id/events', (c) => {
    begun.push(c.req.path);
    async function* items(): AsyncGenerator<StreamItem> {
      yield* await new Promise<[]>((resolve) => endings.set(c.req.path, () => resolve([])));
      yield { kind: 'heartbeat', seq: 1 };
      await new Promise<void>((resolve) => endings.set(c.req.path, resolve));
    }
    return sseResponse(items, { signal: new AbortController().signal });
  });
  app.all('*', async (c) => {
    begun.push(c.req.path);
    await new Promise<void>((resolve) => endings.set(c.req.path, resolve));
    return c.text('ended');
  });
  const ask = async (path: string, tenant?: string, method = 'GET') =>
    app.request(path, { method, headers: tenant ? { tenant } : {} });
  return {
    begun,
    ask,
    end: (path: string) => endings.get(path)?.(),
    hasBegun: (path: string) => eventually(async () => begun.includes(path), `${path} is at work`),
  };
}

describe('requests of a tenant', () => {
  test('are at work so many at a time, and the others follow in their order', async () => {
    const { ask, begun, end, hasBegun } = openApp(2);
    const answers = ['/1', '/2', '/3', '/4'].map((path) => ask(path, 'a'));
    await hasBegun('/2');
    expect(begun).toEqual(['/1', '/2']);
    end('/2');
    await hasBegun('/3');
    expect(begun).toEqual(['/1', '/2', '/3']);
    end('/1');
    await hasBegun('/4');
    for (const path of ['/3', '/4']) end(path);
    expect(await Promise.all(answers.map(async (answer) => (await answer).status))).toEqual([200, 200, 200, 200]);
  });

  test('hold up neither those of another tenant nor probes', async () => {
    const { ask, end, hasBegun } = openApp(1);
    const first = ask('/1', 'a');
    await hasBegun('/1');
    const others = [ask('/2', 'b'), ask('/livez')];
    for (const path of ['/2', '/livez']) {
      await hasBegun(path);
      end(path);
    }
    end('/1');
    for (const answer of [first, ...others]) expect((await answer).status).toBe(200);
  });

  test.each([
    ['a wait', 'GET', '/v1/runs/run_1/wait', 'waited'],
    ['a stream', 'GET', '/v1/sessions/session_1/events', 'event: heartbeat\n'],
    ['a completion', 'POST', '/v1/chat/completions', 'waited'],
  ])('%s has its turn until it is open', async (_name, method, path, text) => {
    const { ask, begun, end, hasBegun } = openApp(1);
    const following = ask(path, 'a', method).then((response) => response.text());
    await hasBegun(path);
    const next = ask('/next', 'a');
    const probe = ask('/livez');
    await hasBegun('/livez');
    end('/livez');
    await probe;
    expect(begun).not.toContain('/next');
    end(path);
    await hasBegun('/next');
    end('/next');
    expect((await next).status).toBe(200);
    end(path);
    expect(await following).toContain(text);
  });

  test('give their turn back when they fail, and when they take long', async () => {
    const { ask, end, hasBegun } = openApp(1, 50);
    expect((await ask('/fails', 'a')).status).toBe(500);
    const stuck = ask('/stuck', 'a');
    await hasBegun('/stuck');
    const next = ask('/next', 'a');
    await hasBegun('/next');
    end('/next');
    expect((await next).status).toBe(200);
    end('/stuck');
    await stuck;
    const last = ask('/last', 'a');
    await hasBegun('/last');
    end('/last');
    expect((await last).status).toBe(200);
  });
});
