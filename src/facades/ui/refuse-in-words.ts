import type { MiddlewareHandler } from 'hono';
import { z } from 'zod';
import type { HttpEnv } from '../../http/http-env.ts';

const problemSchema = z.looseObject({ code: z.string(), detail: z.string() });

/**
 * `useChat` shows people the body of a refusal as is. Without an `Accept` for JSON it is one sentence, with the code at
 * its end as in the errors of a stream.
 */
export const refuseInWords: MiddlewareHandler<HttpEnv> = async (c, next) => {
  await next();
  const isProblem = c.res.headers.get('content-type')?.startsWith('application/problem+json') === true;
  if (!isProblem || /\bjson\b/i.test(c.req.header('accept') ?? '')) return;
  const { detail, code } = problemSchema.parse(await c.res.json());
  const { status } = c.res;
  const headers = new Headers(c.res.headers);
  headers.set('content-type', 'text/plain; charset=utf-8');
  // Hono would add the headers of the present response.
  c.res = undefined;
  c.res = new Response(`${detail} (${code})`, { status, headers });
};
