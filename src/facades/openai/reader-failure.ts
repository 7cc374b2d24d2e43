import type { Context } from 'hono';
import { type ErrorRecord, toErrorRecord } from '../../domain/errors.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { HttpEnv } from '../../http/http-env.ts';
import { toSafeError } from '../../platform/log.ts';
import { whyStoreUnavailable } from '../../store/db/store-unavailable.ts';

/** Logs why the reader of an answer failed. Returns the error that its client is told. */
export function toFailed(c: Context<HttpEnv>, { log }: HttpDeps, error: unknown): ErrorRecord {
  const why = whyStoreUnavailable(error);
  // As a request would be answered whose answer has not begun.
  const status = why === null ? 500 : 503;
  const request = { status, method: c.req.method, path: c.req.path, requestId: c.get('requestId') };
  log('error', { event: 'http_request_failed', ...request, error: toSafeError(error) });
  return why === null ? toErrorRecord(error) : { code: 'store_unavailable', message: `${why}; what was begun goes on` };
}
