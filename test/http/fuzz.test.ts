import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/runtime/new-id.ts';
import { startTestApi } from './test-api.ts';

const CALL = 'call_018f0000000070008000000000000000_1';
const SEED = 20_261_122;
const REQUESTS = 500;

const PATHS = [
  '/',
  '/api/chat',
  '/api/chat/{id}/messages',
  '/api/chat/{id}/stop',
  '/api/chat/{id}/stream',
  '/docs',
  '/livez',
  '/openapi.json',
  '/readyz',
  '/v1/agents',
  '/v1/audit',
  '/v1/blobs',
  '/v1/blobs/{id}',
  '/v1/runs',
  '/v1/runs/{id}',
  '/v1/runs/{id}/cancel',
  '/v1/runs/{id}/tool-calls/{toolCallId}',
  '/v1/runs/{id}/wait',
  '/v1/sessions',
  '/v1/sessions/{id}',
  '/v1/sessions/{id}/agent',
  '/v1/sessions/{id}/fork',
  '/v1/sessions/{id}/cancel',
  '/v1/sessions/{id}/events',
  '/v1/sessions/{id}/messages',
  '/v1/sessions/{id}/queue',
];

/** Any UTF-16 text, halves of characters and NUL included. */
const anyText = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) });
const anyNumber = fc.oneof(fc.integer(), fc.double(), fc.bigInt()).map(String);
const FIELDS = [
  'agent',
  'messages',
  'message',
  'trigger',
  'id',
  'title',
  'metadata',
  'content',
  'delivery',
  'limits',
  'decision',
  'output',
  'maxSteps',
  'type',
  'text',
  '__proto__',
];
const PARAMETERS = [
  'before',
  'cursor',
  'limit',
  'after',
  'status',
  'sessionId',
  'timeoutMs',
  'wait',
  'metadata.k',
  'x',
];
const field = fc.oneof(fc.constantFrom(...FIELDS), anyText);
const value = fc.oneof(
  fc.constantFrom<unknown>(
    'coder',
    'clerk',
    'steer',
    [{ type: 'text', text: 'x' }],
    { maxSteps: 2 },
    { k: 'v' },
    'hello',
  ),
  fc.jsonValue({ maxDepth: 4 }),
  anyText,
);
const body = fc.oneof(
  { weight: 4, arbitrary: fc.dictionary(field, value, { maxKeys: 5 }).map((fields) => JSON.stringify(fields)) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: anyText },
);
const query = fc.dictionary(fc.constantFrom(...PARAMETERS), fc.oneof(anyNumber, anyText, fc.base64String()), {
  maxKeys: 3,
});
const headers = fc.record(
  {
    'content-type': fc.constantFrom('application/json', 'text/plain', 'application/json; charset=utf-16', 'x/y'),
    accept: fc.constantFrom('application/json', '*/*', 'text/html', 'image/*;q=0'),
    'last-event-id': fc.oneof(anyNumber, fc.constantFrom('a', '-1')),
    'x-request-id': fc.constantFrom('x', 'é', '<>'),
  },
  { requiredKeys: ['content-type'] },
);
const documentSchema = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({ responses: z.record(z.string(), z.unknown()) }))),
});

const request = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'HEAD'),
  path: fc.constantFrom(...PATHS),
  id: fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 5 }), anyText),
  query,
  body,
  headers,
});

type Input = typeof request extends fc.Arbitrary<infer Value> ? Value : never;

function sendTo(url: string, input: Input, id: string, signal: AbortSignal): Promise<Response> {
  // A wait of up to five minutes is not what is looked for here.
  const parameters = { ...input.query, ...(input.path.endsWith('/wait') ? { timeoutMs: '0' } : {}) };
  const search = new URLSearchParams(Object.entries(parameters).filter(([name]) => name !== 'wait'));
  const hasBody = input.method !== 'GET' && input.method !== 'HEAD';
  return fetch(`${url}${input.path.replace('{id}', id).replace('{toolCallId}', CALL)}?${search}`, {
    method: input.method,
    headers: input.headers,
    signal,
    ...(hasBody ? { body: input.body } : {}),
  });
}

async function expectProblem(response: Response): Promise<void> {
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect(await response.json()).toMatchObject({ status: response.status, code: expect.any(String) });
}

describe('the API', () => {
  test(`answers ${REQUESTS} random requests without a failure of its own, each as its document says`, async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const { body: sent } = await api.send(sessionId, 'hello');
    const runId = String(sent['runId']);
    const known = [sessionId, runId, String(sent['messageId']), formatId('session', newId()), sessionId, runId];
    const { paths } = documentSchema.parse((await api.call('GET', '/openapi.json')).body);
    const declaredFor = ({ method, path }: Input): string[] =>
      Object.keys(paths[path]?.[method === 'HEAD' ? 'get' : method.toLowerCase()]?.responses ?? { 405: {} });
    const statuses = new Set<number>();
    const ask = async (input: Input): Promise<void> => {
      const id = typeof input.id === 'number' ? (known[input.id] ?? '') : encodeURIComponent(input.id.toWellFormed());
      const hangUp = new AbortController();
      const response = await sendTo(api.url, input, id, hangUp.signal);
      const { status } = response;
      statuses.add(status);
      expect(status).toBeLessThan(500);
      // Without an id, or with dots for one, the path is another.
      if (!/^\.{0,2}$/.test(id)) expect(declaredFor(input)).toContain(String(status));
      if (status >= 400 && input.method !== 'HEAD') return expectProblem(response);
      hangUp.abort();
    };
    await fc.assert(fc.asyncProperty(request, ask), { seed: SEED, numRuns: REQUESTS, endOnFailure: true });
    // One of them may cancel the run.
    expect(api.logged.filter(({ event }) => event !== 'run_ended')).toEqual([]);
    expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 404, 405, 415]));
  });
});
