import { z } from 'zod';
import { type Schema, schemaSchema } from '../fuzz/schema-values.ts';

const documentSchema = z.looseObject({
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({
        security: z.array(z.unknown()).optional(),
        responses: z.record(z.string(), z.unknown()),
        requestBody: z
          .looseObject({
            'x-max-bytes': z.int().optional(),
            content: z.record(z.string(), z.looseObject({ schema: schemaSchema })),
          })
          .optional(),
        parameters: z
          .array(
            z.looseObject({
              name: z.string(),
              in: z.string(),
              schema: schemaSchema.optional(),
            }),
          )
          .optional(),
      }),
    ),
  ),
});

export type DocumentedRoute = Readonly<{
  method: string;
  path: string;
  /** Answers without a key. */
  isOpen: boolean;
  hasBody: boolean;
  /** Of a body. */
  maxBytes: number;
  /** By media type. */
  bodies: Readonly<Record<string, Schema>>;
  statuses: readonly number[];
  parameters: readonly Readonly<{ name: string; in: string; pattern: string; schema: Schema }>[];
}>;

/** Its errors are JSON-RPC's and not those of the API. It has tests of its own, and MCP's conformance suite. */
const MCP_PATH = '/mcp';

/** Every route of the service's document but MCP's, so that tests of all routes include those that are added later. */
export function readRoutes(document: unknown): DocumentedRoute[] {
  const paths = Object.entries(documentSchema.parse(document).paths).filter(([path]) => path !== MCP_PATH);
  return paths.flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { security, requestBody, responses, parameters = [] }]) => ({
      method: method.toUpperCase(),
      path,
      isOpen: security?.length === 0,
      hasBody: requestBody !== undefined,
      maxBytes: requestBody?.['x-max-bytes'] ?? 0,
      bodies: Object.fromEntries(
        Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) => [type, schema]),
      ),
      statuses: Object.keys(responses).map(Number),
      parameters: parameters.map(({ name, in: place, schema }) => ({
        name,
        in: place,
        pattern: schema?.pattern ?? '',
        schema: schema ?? {},
      })),
    })),
  );
}

/** The schemas to which `#/components/schemas/NAME` refers, by name. */
export function readSchemas(document: unknown): Readonly<Record<string, Schema>> {
  const { components } = z
    .looseObject({ components: z.looseObject({ schemas: z.record(z.string(), schemaSchema) }) })
    .parse(document);
  return components.schemas;
}
