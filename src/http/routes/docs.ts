import { createRoute, z } from '@hono/zod-openapi';
import { renderDocsPage } from '../docs-page.ts';
import type { BatonApp } from '../http-deps.ts';
import { DENIED, jsonOf } from '../responses.ts';

const tags = ['docs'];

type OpenApiDocument = ReturnType<BatonApp['getOpenAPI31Document']>;

const index = createRoute({
  method: 'get',
  path: '/',
  tags,
  summary: 'Where to go from here',
  responses: {
    200: jsonOf(z.object({ name: z.string(), links: z.record(z.string(), z.string()) }), 'Links.'),
    ...DENIED,
  },
});

const openapi = createRoute({
  method: 'get',
  path: '/openapi.json',
  tags,
  summary: 'This API as an OpenAPI 3.1 document',
  responses: { 200: jsonOf(z.custom<OpenApiDocument>().openapi({ type: 'object' }), 'The document.'), ...DENIED },
});

const docs = createRoute({
  method: 'get',
  path: '/docs',
  tags,
  summary: 'This API as a page to read',
  responses: { 200: { description: 'The page.', content: { 'text/html': { schema: z.string() } } }, ...DENIED },
});

const LINKS = {
  docs: '/docs',
  openapi: '/openapi.json',
  agents: '/v1/agents',
  sessions: '/v1/sessions',
  runs: '/v1/runs',
  live: '/livez',
  ready: '/readyz',
  metrics: '/metrics',
};

const INFO = {
  title: 'Baton',
  version: '1',
  description:
    'Durable LLM agent sessions. Create a session of an agent, send it messages, follow its events. ' +
    'Every error is a problem of RFC 9457 with a stable `code`.',
};

/** How a request carries its key. */
const KEY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key of `npm run keys -- create`. As long as there is none, none is needed.',
  },
  header: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The same key in a header of its own.' },
} as const;

/** What describes the API. Registered last, and built from what is registered before. */
export function registerDocsRoutes(app: BatonApp): void {
  app.openapi(index, (c) => c.json({ name: 'Baton', links: LINKS }, 200));

  for (const [name, scheme] of Object.entries(KEY_SCHEMES)) {
    app.openAPIRegistry.registerComponent('securitySchemes', name, scheme);
  }
  const security = Object.keys(KEY_SCHEMES).map((name) => ({ [name]: [] }));
  const document = lazy(() => app.getOpenAPI31Document({ openapi: '3.1.0', info: INFO, security }));
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
