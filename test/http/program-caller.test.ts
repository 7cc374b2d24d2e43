import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import type { Authenticate } from '../../src/http/http-env.ts';
import { askProgram } from '../../src/http/middleware/program-caller.ts';
import { issueToken } from '../../src/http/session-tokens.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const SECRET = 'db password is hunter2';
/** As a program without types would write it. */
const returning = (value: unknown): Authenticate => (() => value) as unknown as Authenticate;
const throwing =
  (error: unknown): Authenticate =>
  () => {
    throw error;
  };

describe('the caller that a program names', () => {
  it.each<[string, Authenticate, number]>([
    ['a caller', returning({ tenantId: 'ann', scopes: ['read'] }), 200],
    ['a promise of one', returning(Promise.resolve({ tenantId: 'ann', scopes: ['read'], more: 1 })), 200],
    ['null', returning(null), 401],
    ['nothing', returning(undefined), 401],
    ['scopes that are a text', returning({ tenantId: 'ann', scopes: 'read' }), 500],
    ['a text in which a scope stands', returning({ tenantId: 'ann', scopes: 'thread' }), 500],
    ['a scope that does not exist', returning({ tenantId: 'ann', scopes: ['read', 'root'] }), 500],
    ['no scopes', returning({ tenantId: 'ann' }), 500],
    ['a number as its tenant', returning({ tenantId: 5, scopes: ['read'] }), 500],
    ['an empty tenant', returning({ tenantId: '', scopes: ['read'] }), 500],
    ['a tenant without end', returning({ tenantId: 'x'.repeat(201), scopes: ['read'] }), 500],
    ['a tenant that no database keeps', returning({ tenantId: 'a\u0000', scopes: ['read'] }), 500],
    ['half a character', returning({ tenantId: '\ud800', scopes: ['read'] }), 500],
    ['true', returning(true), 500],
    ['an error', throwing(new TypeError(SECRET)), 500],
    ['an error that is none', throwing(SECRET), 500],
    ['an error with a secret for a name', throwing(Object.assign(new Error(SECRET), { name: SECRET })), 500],
  ])('is checked: %s', async (_name, authenticate, expected) => {
    await using api = await startTestApi({ authenticate });
    const { status, text } = await api.call('GET', '/v1/sessions');
    expect(status).toBe(expected);
    const seen = JSON.stringify([text, api.logged]);
    expect(seen).not.toContain('hunter2');
    const noted = api.logged.filter(({ event }) => event === 'authenticate_failed');
    expect(noted).toHaveLength(expected === 500 ? 1 : 0);
  });

  it('keeps its streams when keys are made and revoked', async () => {
    await using api = await startTestApi({
      authenticate: returning({ tenantId: 'default', scopes: ['read', 'write'] }),
    });
    const session = await api.createSession();
    const events = `${api.url}/v1/sessions/${session}/events`;
    const own = await fetch(events);
    const key = await createTestKey(api.db);
    const token = await issueToken(api.db, {
      ...{ sessionId: parseId('session', session) ?? '', tenantId: 'default', keyId: key.id, canWrite: false },
      ...{ grant: { limits: {}, allow: [] }, expiresAtMs: Date.now() + 60_000 },
    });
    const byKey = await fetch(events, { headers: { authorization: `Bearer ${token}` } });
    await api.db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    // By then the keys of all streams have been looked at.
    await byKey.text();
    await api.send(session, 'Still there?');
    const reader = own.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('run:queued')) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      expect(done).toBe(false);
      text += value;
    }
    await reader?.cancel();
  });

  it('is waited for ten seconds', async () => {
    vi.useFakeTimers();
    const logged: LogEvent[] = [];
    const never = (() => new Promise(() => undefined)) as Authenticate;
    const asking = askProgram(never, new Request('http://localhost/'), (_level, event) => void logged.push(event));
    const refused = expect(asking).rejects.toMatchObject({ code: 'timeout' });
    await vi.advanceTimersByTimeAsync(9_999);
    expect(logged).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await refused;
    expect(logged).toEqual([{ event: 'authenticate_failed', reason: 'late' }]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

afterEach(() => vi.useRealTimers());
