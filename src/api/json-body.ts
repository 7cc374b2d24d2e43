import { z } from '@hono/zod-openapi';

/** A JSON body that the request must have. */
export const jsonBody = <Schema extends z.ZodType>(schema: Schema) =>
  ({ required: true, content: { 'application/json': { schema } } }) as const;

/** A JSON body that the request may leave out. */
export const optionalJsonBody = <Schema extends z.ZodType>(schema: Schema) =>
  ({ ...jsonBody(schema), required: false }) as const;

/** A body without fields, so that any field is refused by its name. */
export const emptyBody = optionalJsonBody(z.strictObject({}));
