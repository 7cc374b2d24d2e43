import { z } from '@hono/zod-openapi';
import { usageSchema } from '../domain/usage.ts';

const problemBody = z
  .object({
    type: z.string().openapi({ format: 'uri-reference' }),
    title: z.string(),
    status: z.int(),
    code: z.string().openapi({ description: 'Stable code, by which programs decide.' }),
    detail: z.string(),
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .openapi({ description: 'Wrong fields by their dotted paths.' }),
    instance: z.string(),
  })
  .openapi('Problem', { description: 'Problem by RFC 9457.' });

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: problemBody } },
});

export const jsonOf = <Schema extends z.ZodType>(schema: Schema, description: string) => ({
  description,
  content: { 'application/json': { schema } },
});

/** Error responses of a route that needs no key. */
export const OTHER_HOST = {
  403: problem('The request is addressed to a host that this server does not serve.'),
} as const;

/** Error responses of any route to a caller without access. */
export const DENIED = {
  401: problem('There is no API key, or none that is valid.'),
  403: problem('The API key lacks the scope that this needs.'),
  429: problem(
    'Too many requests of this key, too much that waits in the session, or the tenant has used up its day or its storage. See `Retry-After`, where there is one.',
  ),
} as const;

/** Error responses that any route may give. */
export const REFUSED = {
  ...DENIED,
  400: problem('Something in the request is wrong; `errors` names the fields.'),
  500: problem('A defect of the server.'),
  503: problem('The database or a server of tools is away; try again. Or no provider is configured for the model.'),
} as const;

/** Of a route that expects no body, and reads one that is sent nevertheless. */
export const TOO_LARGE = {
  413: problem('The body is too large.'),
  415: problem('The body is compressed.'),
} as const;

export const BODY_REFUSED = {
  ...TOO_LARGE,
  415: problem('The body is not application/json, or is compressed.'),
} as const;

/** Of a route that also takes a form. */
export const FORM_REFUSED = {
  ...BODY_REFUSED,
  415: problem('The body is neither application/json nor a form, or is compressed.'),
} as const;

export const NOT_FOUND = { 404: problem('Nothing with this id or name exists for the caller.') } as const;

export const CONFLICT = { 409: problem('Not possible in the present state, or the id is taken.') } as const;

export const UNKNOWN_AGENT = { 422: problem('No agent has this name; the detail lists those that exist.') } as const;

export const NOT_ACCEPTABLE = { 406: problem('None of the accepted media types is offered.') } as const;

// The domain made its schema before Hono's zod added `openapi`, so this one is built from its fields.
export const usageBody = z
  .strictObject(usageSchema.shape)
  .openapi('Usage', { description: 'Tokens as the provider billed them.' });

export const timeBody = z.string().openapi({ format: 'date-time' });

export const costBody = z
  .number()
  .nullable()
  .openapi({ description: 'US dollars. null if the price of a call is not known.' });

/** The cursor of the next page; null at the end of the list. */
export const nextCursorBody = z.string().nullable();

/**
 * The schema, or null. `nullable` would make the named schema itself nullable in the OpenAPI document, for all who refer to it.
 */
export const orNull = <Schema extends z.ZodType>(schema: Schema) => z.union([schema, z.null()]);

/** Any JSON value that is always there. The document lists no plain `unknown` among the required fields. */
export const jsonValueBody = z.unknown().nonoptional();
