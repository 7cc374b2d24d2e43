import { type HttpServer, startHttpServer } from '../http/server.ts';
import { hasApiKeys } from '../store/around/api-keys.ts';
import type { Dependencies } from './dependencies.ts';
import { createMonitorApp } from './monitor-app.ts';

/**
 * Serves health and metrics only, on a port of their own, until it is disposed.
 * @throws BatonError `config_invalid`, see `startHttpServer`
 */
export async function startMonitor(deps: Dependencies, port: number): Promise<HttpServer> {
  const app = createMonitorApp({ ...deps, readiness: deps.health.readiness });
  const { host, allowPublicBind, allowedHosts } = deps.config;
  return startHttpServer(app, { host, port, allowPublicBind, allowedHosts, hasApiKeys: await hasApiKeys(deps.db) });
}
