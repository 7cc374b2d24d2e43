import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { DENIED, jsonOf, OTHER_HOST } from './responses.ts';

const tags = ['docs'];

export type OpenApiDocument = ReturnType<OpenAPIHono['getOpenAPI31Document']>;

const pageOf = (description: string) => ({ description, content: { 'text/html': { schema: z.string() } } });

export const getStartPageRoute = createRoute({
  method: 'get',
  path: '/',
  operationId: 'getStartPage',
  tags,
  security: [],
  summary: 'Read the links of the service',
  description:
    'Leads a browser to the console, or to a page of links if the console is not built. Other clients get the links as JSON.',
  responses: {
    302: { description: 'Redirect to the console.' },
    200: {
      description: 'Links of the service.',
      content: {
        'application/json': { schema: z.object({ name: z.string(), links: z.record(z.string(), z.string()) }) },
        'text/html': { schema: z.string() },
      },
    },
    ...OTHER_HOST,
  },
});

export const getOpenApiDocumentRoute = createRoute({
  method: 'get',
  path: '/openapi.json',
  operationId: 'getOpenApiDocument',
  tags,
  summary: 'Read the OpenAPI 3.1 document of the API',
  responses: { 200: jsonOf(z.custom<OpenApiDocument>().openapi({ type: 'object' }), 'The document.'), ...DENIED },
});

export const getDocsPageRoute = createRoute({
  method: 'get',
  path: '/docs',
  operationId: 'getDocsPage',
  tags,
  summary: 'Open the API as a page to read and to try out',
  responses: { 200: pageOf('The page.'), ...DENIED },
});
