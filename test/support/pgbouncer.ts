import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';

export function hasPgbouncer(): boolean {
  return spawnSync('pgbouncer', ['--version']).status === 0;
}

export type Pgbouncer = AsyncDisposable & Readonly<{ via: (connectionString: string) => string }>;

/**
 * Starts a pgbouncer in front of one database, with its defaults but for the mode and the size of its pool. It runs as
 * `nobody` where the tests run as root, which it refuses to be.
 */
export async function startPgbouncer(connectionString: string, mode: 'session' | 'transaction'): Promise<Pgbouncer> {
  const { client, folder, port } = {
    client: new pg.Client({ connectionString }),
    folder: await mkdtemp(path.join(tmpdir(), 'pgbouncer-')),
    port: await freePort(),
  };
  const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;
  const server = [
    `host=${client.host}`,
    `port=${client.port}`,
    `dbname=${quoted(client.database ?? '')}`,
    `user=${quoted(client.user ?? '')}`,
    ...(typeof client.password === 'string' ? [`password=${quoted(client.password)}`] : []),
  ];
  const file = path.join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]\n* = ${server.join(' ')}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =\nauth_type = any\npool_mode = ${mode}\ndefault_pool_size = 80\n`,
  );
  await chmod(folder, 0o755);
  const asUser = userInfo().uid === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', ['-q', ...asUser, file], { stdio: 'ignore' });
  const via = (url: string): string => {
    const changed = new URL(url);
    changed.host = `127.0.0.1:${port}`;
    return changed.href;
  };
  const answers = async (): Promise<boolean> => {
    const probe = new pg.Client({ connectionString: via(connectionString).replace(/\?.*$/, '') });
    try {
      await probe.connect();
      return true;
    } catch {
      return false;
    } finally {
      await probe.end().catch(() => undefined);
    }
  };
  await eventually(answers, 'pgbouncer answers');
  return {
    via,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true });
    },
  };
}
