import type { MiddlewareHandler } from 'hono';
import { accepts } from 'hono/accepts';
import { getDocsPageRoute, getOpenApiDocumentRoute, getStartPageRoute, type OpenApiDocument } from '../../api/docs.ts';
import { STREAM_SCHEMAS } from '../../api/event-bodies.ts';
import { describeWebhooks } from '../../api/told-webhook.ts';
import { BOARD_PATH, CONSOLE_PATH } from '../../domain/access.ts';
import { MAX_SMALL_BODY_BYTES } from '../../domain/tunables.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { limitsOfRoutes } from '../middleware/body-limit.ts';
import { pageHeaders } from '../page-headers.ts';
import { renderDocsPage, SHOW_SCRIPT } from '../pages/docs-page.ts';
import { type Place, renderStartPage } from '../pages/start-page.ts';
import { swaggerFile } from '../pages/swagger-file.ts';
import type { BuiltConsole } from './console.ts';

const PLACES = {
  docs: { path: '/docs', words: 'The API, to read and to try out' },
  openapi: { path: '/openapi.json', words: 'The same for programs: OpenAPI 3.1' },
  agents: { path: '/v1/agents', words: 'The agents that are configured' },
  sessions: { path: '/v1/sessions', words: 'The newest sessions, as JSON' },
  runs: { path: '/v1/runs', words: 'The newest runs, as JSON' },
  live: { path: '/livez', words: 'Whether this process works' },
  ready: { path: '/readyz', words: 'Whether its stores can be reached' },
  metrics: { path: '/metrics', words: 'Numbers for Prometheus' },
} as const satisfies Record<string, Place>;

const CONSOLE: Place = { path: `${CONSOLE_PATH}/`, words: 'Sessions, queues and costs, to watch and to steer' };
const BOARD: Place = { path: BOARD_PATH, words: 'The queues and their jobs' };

const INFO = {
  title: 'Baton',
  version: '1',
  license: { name: 'MIT', identifier: 'MIT' },
  description:
    'Durable LLM agent sessions. Create a session of an agent, send it messages, follow its events. ' +
    'Every error is a problem of RFC 9457 with a stable `code`.',
};

const KEY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'API key of `npm run keys -- create`. While no key exists, requests need none.',
  },
  header: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'API key in a header of its own.' },
} as const;

const docsHeaders = pageHeaders();

/**
 * The start page, the API's document and its page. Registered last, because it describes the routes before it. A person
 * who opens the service in a browser wants the console, a program the links.
 */
export function registerDocsRoutes(app: BatonApp, { board }: Pick<HttpDeps, 'board'>, built: BuiltConsole): void {
  const places: Record<string, Place> = board === undefined ? PLACES : { ...PLACES, queues: BOARD };
  const links = Object.fromEntries(Object.entries(places).map(([name, { path }]) => [name, path]));
  const startPage = lazy(() => renderStartPage(Object.values(places)));
  app.openapi(getStartPageRoute, async (c) => {
    const wanted = accepts(c, { header: 'Accept', supports: ['application/json', 'text/html'], default: '' });
    const hasConsole = (await built.files()) !== null;
    if (wanted !== 'text/html') {
      return c.json({ name: 'Baton', links: { ...(hasConsole && { console: CONSOLE.path }), ...links } }, 200);
    }
    // Relative, for a prefix that a proxy has taken away.
    return hasConsole ? c.redirect(`.${CONSOLE.path}`, 302) : c.html(startPage(), 200);
  });

  for (const [name, scheme] of Object.entries(KEY_SCHEMES)) {
    app.openAPIRegistry.registerComponent('securitySchemes', name, scheme);
  }
  for (const [name, schema] of Object.entries(STREAM_SCHEMAS)) {
    app.openAPIRegistry.registerComponent('schemas', name, schema);
  }
  describeWebhooks(app);
  const security = Object.keys(KEY_SCHEMES).map((name) => ({ [name]: [] }));
  const servers = [{ url: '/', description: 'Baton' }];
  const document = lazy(() =>
    withBodyLimits(app.getOpenAPI31Document({ openapi: '3.1.0', info: INFO, servers, security }), app),
  );
  app.openapi(getOpenApiDocumentRoute, (c) => c.json(document(), 200));

  const page = lazy(() => renderDocsPage(INFO.title));
  app.use('/docs/*', docsHeaders, mayBeKept);
  app.use('/docs', docsHeaders);
  app.openapi(getDocsPageRoute, (c) => c.html(page(), 200));
  app.get('/docs/show.js', (c) => c.body(SHOW_SCRIPT, 200, { 'content-type': 'text/javascript; charset=utf-8' }));
  app.get('/docs/swagger-ui.css', async (c) =>
    c.body(await swaggerFile('swagger-ui.css'), 200, { 'content-type': 'text/css; charset=utf-8' }),
  );
  app.get('/docs/swagger-ui-bundle.js', async (c) =>
    c.body(await swaggerFile('swagger-ui-bundle.js'), 200, { 'content-type': 'text/javascript; charset=utf-8' }),
  );
}

/** Says at each body how large it may be. */
function withBodyLimits(document: OpenApiDocument, app: BatonApp): OpenApiDocument {
  const limits = limitsOfRoutes(app);
  for (const [path, operations] of Object.entries(document.paths ?? {})) {
    for (const method of ['post', 'put', 'patch', 'delete'] as const) {
      const body = operations[method]?.requestBody;
      if (body === undefined || '$ref' in body) continue;
      const route = `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`;
      body['x-max-bytes'] = limits.get(route) ?? MAX_SMALL_BODY_BYTES;
    }
  }
  return document;
}

const mayBeKept: MiddlewareHandler = async (c, next) => {
  await next();
  if (c.res.ok) c.res.headers.set('cache-control', 'private, max-age=3600');
};

function lazy<Value>(make: () => Value): () => Value {
  let result: Readonly<{ value: Value }> | undefined;
  return () => {
    result ??= { value: make() };
    return result.value;
  };
}
