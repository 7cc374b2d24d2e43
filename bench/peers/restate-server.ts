import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const START_TIMEOUT_MS = 30_000;

export type RestateServer = AsyncDisposable &
  Readonly<{
    ingressUrl: string;
    /** `on` unless its configuration turns the fsync of the log off. */
    syncCommit: string;
    register: (serviceUrl: string) => Promise<void>;
    /** Stored results of `ctx.run` in the invocations whose keys begin so. */
    countRuns: (prefix: string) => Promise<number>;
  }>;

/** A Restate server of its own, with its default configuration but for ports and telemetry. */
export async function startRestateServer(): Promise<RestateServer> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'bench-restate-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()];
  const env = {
    PATH: process.env['PATH'],
    RESTATE_BASE_DIR: folder,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_DISABLE_TELEMETRY: 'true',
    RESTATE_LOG_FILTER: 'error',
    DO_NOT_TRACK: '1',
  };
  const { stdout: config } = await promisify(execFile)(binary(), ['--dump-config'], { env });
  const child = spawn(binary(), [], { env, cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  const adminUrl = `http://127.0.0.1:${admin}`;
  await untilHealthy([`${adminUrl}/health`, `http://127.0.0.1:${ingress}/restate/health`]);
  const owned = stack.move();
  return {
    ingressUrl: `http://127.0.0.1:${ingress}`,
    syncCommit: /rocksdb-disable-wal-fsync = true/.test(config) ? 'off' : 'on',
    async register(uri) {
      await post(`${adminUrl}/deployments`, { uri });
    },
    async countRuns(prefix) {
      const query = `select count(*) as count from sys_journal j join sys_invocation i on i.id = j.id
        where j.entry_type = 'Notification: Run' and i.target_service_key like '${prefix}%'`;
      const { rows } = (await post(`${adminUrl}/query`, { query })) as { rows: { count: number }[] };
      return rows[0]?.count ?? 0;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The server's binary itself: its launcher would stay in between. */
function binary(): string {
  const require = createRequire(import.meta.resolve('@restatedev/restate-server/package.json'));
  return require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
}

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json();
}

async function untilHealthy(urls: readonly string[]): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (const url of urls) {
    while (!(await isHealthy(url))) {
      if (Date.now() > deadline) throw new Error(`the Restate server did not answer at ${url}`);
      await sleep(50);
    }
  }
}

const isHealthy = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
