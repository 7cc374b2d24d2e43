import type { Context } from 'hono';
import { adviceForAbsent } from '../absent-openai-routes.ts';
import { ProblemError, problemResponse } from '../bodies/problem.ts';
import type { BatonApp, HttpEnv } from '../http-env.ts';

type Endpoint = Readonly<{ method: string; pattern: RegExp }>;

/** Answers a request that no route matched: `OPTIONS` and 405 with the path's methods, or 404. */
export function createNotFoundHandler(app: BatonApp): (c: Context<HttpEnv>) => Response {
  let endpoints: readonly Endpoint[] | undefined;
  return (c) => {
    endpoints ??= endpointsOf(app);
    const { path, method } = c.req;
    const methods = endpoints.filter(({ pattern }) => pattern.test(path)).map((endpoint) => endpoint.method);
    if (methods.length === 0) {
      const advice = adviceForAbsent(path);
      const detail = `No such route: ${path}${advice === null ? '' : `. ${advice}`}`;
      return problemResponse(new ProblemError('not_found', detail), path);
    }
    const allow = [...new Set([...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])].join(', ');
    if (method === 'OPTIONS') return new Response(null, { status: 204, headers: { allow } });
    const detail = `${method} is not possible here, only ${allow}`;
    return problemResponse(new ProblemError('method_not_allowed', detail, { headers: { allow } }), path);
  };
}

function endpointsOf(app: BatonApp): Endpoint[] {
  return app.openAPIRegistry.definitions.flatMap((definition) => {
    if (definition.type !== 'route') return [];
    const { method, path } = definition.route;
    const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
    return [{ method: method.toUpperCase(), pattern }];
  });
}
