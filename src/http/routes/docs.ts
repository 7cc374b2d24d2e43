import { createRoute, z } from '@hono/zod-openapi';
import { renderDocsPage } from '../docs-page.ts';
import type { BatonApp } from '../http-deps.ts';
import { jsonOf } from '../responses.ts';

const tags = ['docs'];

type OpenApiDocument = ReturnType<BatonApp['getOpenAPI31Document']>;

const index = createRoute({
  method: 'get',
  path: '/',
  tags,
  summary: 'Where to go from here',
  responses: { 200: jsonOf(z.object({ name: z.string(), links: z.record(z.string(), z.string()) }), 'Links.') },
});

const openapi = createRoute({
  method: 'get',
  path: '/openapi.json',
  tags,
  summary: 'This API as an OpenAPI 3.1 document',
  responses: { 200: jsonOf(z.custom<OpenApiDocument>().openapi({ type: 'object' }), 'The document.') },
});

const docs = createRoute({
  method: 'get',
  path: '/docs',
  tags,
  summary: 'This API as a page to read',
  responses: { 200: { description: 'The page.', content: { 'text/html': { schema: z.string() } } } },
});

const LINKS = {
  docs: '/docs',
  openapi: '/openapi.json',
  agents: '/v1/agents',
  sessions: '/v1/sessions',
  runs: '/v1/runs',
  live: '/livez',
  ready: '/readyz',
};

const INFO = {
  title: 'Baton',
  version: '1',
  description:
    'Durable LLM agent sessions. Create a session of an agent, send it messages, follow its events. ' +
    'Every error is a problem of RFC 9457 with a stable `code`.',
};

/** What describes the API. Registered last, and built from what is registered before. */
export function registerDocsRoutes(app: BatonApp): void {
  app.openapi(index, (c) => c.json({ name: 'Baton', links: LINKS }, 200));

  const document = lazy(() => app.getOpenAPI31Document({ openapi: '3.1.0', info: INFO }));
  app.openapi(openapi, (c) => c.json(document(), 200));

  const page = lazy(() => renderDocsPage(document()));
  app.openapi(docs, (c) => c.html(page(), 200));
}

function lazy<Value>(make: () => Value): () => Value {
  let made: Readonly<{ value: Value }> | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
