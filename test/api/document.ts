import { createApp } from '../../src/app/app.ts';
import type { HttpDeps } from '../../src/http/http-deps.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';

export type Schema = Readonly<{
  $ref?: string;
  type?: string | readonly string[];
  description?: string;
  title?: string;
  const?: unknown;
  enum?: readonly unknown[];
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  oneOf?: readonly Schema[];
  anyOf?: readonly Schema[];
  allOf?: readonly Schema[];
  not?: unknown;
}>;

export type Operation = Readonly<{
  operationId: string;
  summary: string;
  description?: string;
  tags: readonly string[];
  requestBody?: Readonly<{ content: Readonly<Record<string, Readonly<{ schema: Schema }>>> }>;
  responses: Readonly<Record<string, Readonly<{ description: string }>>>;
}>;

export type OpenApi = Readonly<{
  components: Readonly<{ schemas: Readonly<Record<string, Schema>> }>;
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}>;

/** The document that the service publishes at `/openapi.json`. It is made of the routes alone, so nothing is behind them. */
export async function openApiDocument(): Promise<OpenApi> {
  const deps: Partial<HttpDeps> = { metrics: createMetrics(), log: () => undefined, consoleFolder: '/nowhere' };
  const caller = { tenantId: 'default', keyId: null, scopes: ['read'] };
  const response = await createApp(deps as HttpDeps).request('http://127.0.0.1/openapi.json', {}, { caller });
  return (await response.json()) as OpenApi;
}
