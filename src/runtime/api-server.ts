import { sql } from 'kysely';
import { createApp } from '../http/app.ts';
import type { Readiness } from '../http/http-deps.ts';
import { type HttpServer, startHttpServer } from '../http/server.ts';
import { hasApiKeys } from '../store/api-keys.ts';
import type { Dependencies } from './dependencies.ts';

/** Serves the HTTP API until it is disposed. @throws BatonError `config_invalid`, see `startHttpServer` */
export async function startApi(deps: Dependencies): Promise<HttpServer> {
  const app = createApp({ ...deps, readiness: () => checkReadiness(deps) });
  const { host, port, allowPublicBind } = deps.config;
  return startHttpServer(app, { host, port, allowPublicBind, hasApiKeys: await hasApiKeys(deps.db) });
}

/** Ready when Postgres and the queue answer: without the first nothing works, without the second work is only delayed. */
async function checkReadiness(deps: Dependencies): Promise<Readiness> {
  const [postgres, queue] = await Promise.all([
    check(() => sql`select 1`.execute(deps.db)),
    check(() => deps.jobs.ping()),
  ]);
  return { ready: postgres.ok && queue.ok, checks: { postgres, queue } };
}

const READINESS_TIMEOUT_MS = 2_000;

async function check(probe: () => Promise<unknown>): Promise<{ ok: boolean; message?: string }> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('no answer in time')), READINESS_TIMEOUT_MS);
  try {
    await Promise.race([probe(), late]);
    return { ok: true };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : 'no answer' };
  } finally {
    clearTimeout(timer);
  }
}
