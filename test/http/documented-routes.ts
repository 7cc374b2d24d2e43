import { z } from 'zod';

const documentSchema = z.looseObject({
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({
        security: z.array(z.unknown()).optional(),
        requestBody: z.unknown().optional(),
        parameters: z
          .array(
            z.looseObject({
              name: z.string(),
              in: z.string(),
              schema: z.looseObject({ pattern: z.string().optional() }).optional(),
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
  parameters: readonly Readonly<{ name: string; in: string; pattern: string }>[];
}>;

/** Every route as the service documents it: a test that asks for these asks for those to come as well. */
export function readRoutes(document: unknown): DocumentedRoute[] {
  return Object.entries(documentSchema.parse(document).paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { security, requestBody, parameters = [] }]) => ({
      method: method.toUpperCase(),
      path,
      isOpen: security?.length === 0,
      hasBody: requestBody !== undefined,
      parameters: parameters.map(({ name, in: place, schema }) => ({
        name,
        in: place,
        pattern: schema?.pattern ?? '',
      })),
    })),
  );
}
