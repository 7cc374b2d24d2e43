import { createConfig, lintFromString } from '@redocly/openapi-core';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ERROR_CODES } from '../../src/domain/errors.ts';
import { EVENT_SCHEMAS, LIVE_SCHEMAS } from '../../src/domain/run/events.ts';
import { TEST_EVENT, WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { toFailure } from '../../src/facades/openai/completion-bodies.ts';
import { readRoutes } from './documented-routes.ts';
import { startTestApi } from './test-api.ts';

/** The parts of OpenAPI 3.1 that the document uses, closed: anything else in it is a mistake. */
const reference = z.strictObject({ $ref: z.string().regex(/^#\/components\/schemas\/\w+$/) });
const jsonSchema = z.union([reference, z.looseObject({}), z.boolean()]);
const mediaTypes = z.record(z.string().regex(/^[\w.+-]+\/[\w.+-]+$/), z.strictObject({ schema: jsonSchema }));
const operation = z.strictObject({
  operationId: z.string().regex(/^[a-z][A-Za-z]+$/),
  tags: z.array(z.string()).min(1),
  summary: z.string().min(1),
  security: z.tuple([]).optional(),
  description: z.string().optional(),
  parameters: z
    .array(
      z.strictObject({
        name: z.string(),
        in: z.enum(['path', 'query', 'header']),
        required: z.boolean(),
        description: z.string().optional(),
        schema: jsonSchema,
      }),
    )
    .optional(),
  requestBody: z
    .strictObject({ required: z.boolean().optional(), content: mediaTypes, 'x-max-bytes': z.int().optional() })
    .optional(),
  responses: z.record(
    z.string().regex(/^(101|[2-5]\d\d)$/),
    z.strictObject({ description: z.string().min(1), content: mediaTypes.optional() }),
  ),
});
const documentSchema = z.strictObject({
  openapi: z.literal('3.1.0'),
  info: z.strictObject({
    title: z.string(),
    version: z.string(),
    description: z.string(),
    license: z.strictObject({ name: z.string(), identifier: z.string() }),
  }),
  servers: z.tuple([z.strictObject({ url: z.literal('/'), description: z.string() })]),
  components: z.strictObject({
    schemas: z.record(z.string(), z.looseObject({})),
    parameters: z.strictObject({}),
    securitySchemes: z.strictObject({
      bearer: z.strictObject({ type: z.literal('http'), scheme: z.literal('bearer'), description: z.string() }),
      header: z.strictObject({
        type: z.literal('apiKey'),
        in: z.literal('header'),
        name: z.literal('x-api-key'),
        description: z.string(),
      }),
    }),
  }),
  security: z.tuple([z.strictObject({ bearer: z.tuple([]) }), z.strictObject({ header: z.tuple([]) })]),
  webhooks: z.record(z.enum([...WEBHOOK_EVENTS, TEST_EVENT]), z.strictObject({ post: operation })),
  paths: z.record(
    z.string().startsWith('/'),
    z.partialRecord(z.enum(['get', 'post', 'put', 'patch', 'delete']), operation),
  ),
});

const ROUTES = [
  'GET /',
  'POST /api/chat',
  'GET /api/chat/{id}/messages',
  'POST /api/chat/{id}/stop',
  'GET /api/chat/{id}/stream',
  'GET /docs',
  'GET /livez',
  'POST /mcp',
  'GET /metrics',
  'GET /openapi.json',
  'GET /readyz',
  'GET /v1/activity',
  'GET /v1/agents',
  'GET /v1/audit',
  'POST /v1/blobs',
  'GET /v1/blobs/{id}',
  'POST /v1/chat/completions',
  'GET /v1/errors',
  'POST /v1/hooks/{name}',
  'GET /v1/inbox',
  'GET /v1/keys',
  'POST /v1/keys',
  'POST /v1/keys/{id}/revoke',
  'GET /v1/models',
  'GET /v1/models/{model}',
  'GET /v1/operator/errors',
  'GET /v1/operator/runs',
  'GET /v1/operator/usage',
  'GET /v1/responses',
  'POST /v1/responses',
  'POST /v1/responses/compact',
  'DELETE /v1/responses/{id}',
  'GET /v1/responses/{id}',
  'POST /v1/responses/{id}/cancel',
  'GET /v1/responses/{id}/input_items',
  'POST /v1/responses/input_tokens',
  'GET /v1/runs',
  'GET /v1/runs/{id}',
  'POST /v1/runs/{id}/cancel',
  'GET /v1/runs/{id}/steps',
  'GET /v1/runs/{id}/steps/{no}/request',
  'POST /v1/runs/{id}/tool-calls/{toolCallId}',
  'GET /v1/runs/{id}/wait',
  'GET /v1/schedules',
  'POST /v1/schedules',
  'DELETE /v1/schedules/{id}',
  'GET /v1/schedules/{id}',
  'PATCH /v1/schedules/{id}',
  'PUT /v1/schedules/{id}',
  'GET /v1/schedules/{id}/fires',
  'GET /v1/schedules/{id}/next',
  'POST /v1/schedules/{id}/pause',
  'POST /v1/schedules/{id}/resume',
  'POST /v1/schedules/{id}/run',
  'GET /v1/sessions',
  'POST /v1/sessions',
  'DELETE /v1/sessions/{id}',
  'GET /v1/sessions/{id}',
  'PATCH /v1/sessions/{id}',
  'POST /v1/sessions/{id}/agent',
  'POST /v1/sessions/{id}/cancel',
  'POST /v1/sessions/{id}/compact',
  'GET /v1/sessions/{id}/context',
  'GET /v1/sessions/{id}/events',
  'POST /v1/sessions/{id}/fork',
  'GET /v1/sessions/{id}/messages',
  'POST /v1/sessions/{id}/messages',
  'POST /v1/sessions/{id}/prune',
  'DELETE /v1/sessions/{id}/queue',
  'GET /v1/sessions/{id}/queue',
  'DELETE /v1/sessions/{id}/queue/{messageId}',
  'GET /v1/sessions/{id}/queue/{messageId}',
  'PATCH /v1/sessions/{id}/queue/{messageId}',
  'POST /v1/sessions/{id}/repin',
  'POST /v1/sessions/{id}/resume',
  'POST /v1/sessions/{id}/revert',
  'POST /v1/sessions/{id}/tokens',
  'POST /v1/sessions/{id}/unrevert',
  'GET /v1/sessions/{id}/view',
  'GET /v1/usage',
  'GET /v1/webhook-deliveries',
  'GET /v1/webhook-deliveries/{id}',
  'POST /v1/webhook-deliveries/{id}/redeliver',
  'GET /v1/webhooks',
  'POST /v1/webhooks',
  'DELETE /v1/webhooks/{id}',
  'GET /v1/webhooks/{id}',
  'PATCH /v1/webhooks/{id}',
  'PUT /v1/webhooks/{id}',
  'POST /v1/webhooks/{id}/test',
  'GET /v1/whoami',
  'GET /v1/workers',
];

async function readDocument(): Promise<z.infer<typeof documentSchema>> {
  await using api = await startTestApi();
  const { status, body } = await api.call('GET', '/openapi.json');
  expect(status).toBe(200);
  return documentSchema.parse(body);
}

/** The route of a WebSocket answers 101 and nothing else. */
const WEB_SOCKET =
  'operation-2xx-response: Operation must have at least one `2XX` response. #/paths/~1v1~1responses/get/responses';

describe('the OpenAPI document', () => {
  test('lists whatever a completion is answered with whose run has failed', async () => {
    const { paths } = await readDocument();
    const listed = Object.keys(paths['/v1/chat/completions']?.['post']?.responses ?? {});
    const answered = ERROR_CODES.map((code) => String(toFailure({ code, message: 'No.' }).status));
    expect([...new Set(answered)].filter((status) => !listed.includes(status))).toEqual([]);
  });

  test('is OpenAPI 3.1 and lists every route', async () => {
    const { paths } = await readDocument();
    const listed = Object.entries(paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(listed.toSorted()).toEqual(ROUTES.toSorted());
  });

  test('says 413 of each route that reads a body, whether or not it expects one', async () => {
    const silent = readRoutes(await readDocument()).filter(
      ({ method, statuses }) => method !== 'GET' && !statuses.includes(413),
    );
    expect(silent.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  });

  test('describes what each webhook is told', async () => {
    const { webhooks, components } = await readDocument();
    const { post } = webhooks['run:completed'];
    const sent = JSON.stringify(post.requestBody?.content['application/json']?.schema);
    for (const part of ['#/components/schemas/ToldWebhook', '"run:completed"']) expect(sent).toContain(part);
    const told = JSON.stringify(components.schemas['ToldWebhook']);
    for (const field of ['isOutputCut', 'requiredActions', 'value']) expect(told).toContain(field);
    expect(post.parameters?.map(({ name }) => name)).toContain('webhook-signature');
  });

  test('names no schema like a type of the platform, which a generated client would hide', async () => {
    const { components } = await readDocument();
    expect(Object.keys(components.schemas).filter((name) => name in globalThis)).toEqual([]);
  });

  test('says of each place that takes a key in place of an id that it does', async () => {
    const inQuery: Readonly<Record<string, string>> = { '/v1/sessions': 'parent', '/v1/runs': 'sessionId' };
    const places = readRoutes(await readDocument()).flatMap(({ method, path, parameters }) =>
      parameters
        .filter(({ name }) => name === (/^\/v1\/(sessions|webhooks|schedules)\/\{id/.test(path) ? 'id' : inQuery[path]))
        .map((parameter) => ({ ...parameter, where: `${method} ${path}`, isPut: method === 'PUT' })),
    );
    expect(places.length).toBeGreaterThan(35);
    for (const { where, isPut, pattern, schema } of places) {
      expect('key:order/7 ä', where).toMatch(new RegExp(pattern, 'u'));
      expect('key:', where).not.toMatch(new RegExp(pattern, 'u'));
      expect(JSON.stringify(schema), where).toMatch(isPut ? /"example":"key:/ : /\bkey\b.*"examples":\[.*"key:/);
    }
  });

  test('declares every parameter of a path, and the references in it lead somewhere', async () => {
    const document = await readDocument();
    for (const [path, item] of Object.entries(document.paths)) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      for (const { parameters = [] } of Object.values(item)) {
        const declared = parameters.filter((parameter) => parameter.in === 'path');
        expect(
          declared.map((parameter) => parameter.name),
          path,
        ).toEqual(named);
        expect(
          declared.every((parameter) => parameter.required),
          path,
        ).toBe(true);
      }
    }
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(references.length).toBeGreaterThan(20);
    for (const target of references) {
      expect(Object.keys(document.components.schemas), target).toContain(target.replace('#/components/schemas/', ''));
    }
  });

  test('describes bodies by what they are checked against', async () => {
    const { components, paths } = await readDocument();
    expect(components.schemas['NewSession']).toMatchObject({
      type: 'object',
      required: ['agent'],
      additionalProperties: false,
      properties: { title: { maxLength: 200 } },
    });
    expect(components.schemas['Part']).toMatchObject({ oneOf: expect.any(Array) });
    const parameters = paths['/v1/sessions']?.get?.parameters ?? [];
    expect(parameters.find((parameter) => parameter.name === 'limit')).toMatchObject({
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 200 },
    });
  });

  test('is clean by the recommended rules of Redocly', async () => {
    const document = JSON.stringify(await readDocument());
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lintFromString({ source: document, config });
    const told = problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer ?? ''}`);
    expect(told.filter((problem) => problem !== WEB_SOCKET)).toEqual([]);
  });

  test('has examples that are valid by their own schemas', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const { components } = await readDocument();
    const exampleOf = (name: string) =>
      z.looseObject({ example: z.record(z.string(), z.unknown()) }).parse(components.schemas[name]).example;
    const ask = async (method: string, path: string, name: string, own: object = {}) => {
      const { status, text } = await api.call(method, path, { ...exampleOf(name), ...own });
      return `${name} ${status < 400 ? 'taken' : text}`;
    };
    expect([
      await ask('POST', '/v1/sessions', 'NewSession', { agent: 'coder' }),
      await ask('PATCH', `/v1/sessions/${session}`, 'SessionChange'),
      await ask('POST', `/v1/sessions/${session}/messages`, 'NewMessage'),
      await ask('POST', `/v1/sessions/${session}/agent`, 'AgentSwitch', { agent: 'clerk' }),
    ]).toEqual(['NewSession taken', 'SessionChange taken', 'NewMessage taken', 'AgentSwitch taken']);
  });

  test('has the data of every event, by its type', async () => {
    const { components } = await readDocument();
    const typesOf = (name: string) =>
      z
        .looseObject({
          oneOf: z.array(z.looseObject({ properties: z.looseObject({ type: z.object({ const: z.string() }) }) })),
        })
        .parse(components.schemas[name])
        .oneOf.map(({ properties }) => properties.type.const);
    expect(typesOf('SessionEvent')).toEqual(Object.keys(EVENT_SCHEMAS));
    expect(typesOf('LiveEvent')).toEqual(Object.keys(LIVE_SCHEMAS));
    expect(components.schemas['SessionSnapshot']).toMatchObject({ properties: { queue: { type: 'array' } } });
  });

  test('declares for every route how it refuses', async () => {
    const { paths } = await readDocument();
    for (const [path, item] of Object.entries(paths).filter(([route]) => route.startsWith('/v1/'))) {
      for (const [method, { responses }] of Object.entries(item)) {
        expect(Object.keys(responses), `${method} ${path}`).toEqual(
          expect.arrayContaining(['400', '401', '403', '500', '503']),
        );
      }
    }
  });
});

describe('the pages', () => {
  test('explain every code, and load nothing from elsewhere', async () => {
    await using api = await startTestApi();
    const { status, headers, text } = await api.call('GET', '/docs');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/html/);
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*script-src 'self'/);
    for (const code of ERROR_CODES) expect(text).toContain(`id="${code}"`);
    const loaded = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(loaded.filter((place) => !/^(?:[/#]|data:,)/.test(place))).toEqual([]);
    const files = loaded.filter((place) => place.startsWith('/docs/'));
    expect(files).toHaveLength(3);
    for (const file of files) expect((await api.call('GET', file)).headers.get('cache-control')).toMatch(/max-age/);
  });

  test('start with one of links for a person, and the same links for a program', async () => {
    await using api = await startTestApi();
    const { body } = await api.call('GET', '/');
    const links = Object.values(body['links'] as Record<string, string>);
    for (const link of links) expect((await api.call('GET', link)).status, link).toBe(200);
    const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
    const { text, headers } = await api.call('GET', '/', undefined, browser);
    expect(headers.get('content-type')).toMatch(/^text\/html/);
    for (const link of links) expect(text).toContain(`<a href="${link}">`);
  });

  test('and the agents are listed', async () => {
    await using api = await startTestApi();
    const { body } = await api.call('GET', '/v1/agents');
    expect(body['agents']).toMatchObject([
      { name: 'coder', model: 'simulated/coder', description: 'writes code', tools: [] },
      { name: 'clerk', model: 'simulated/clerk', description: null, tools: [] },
    ]);
  });
});
