import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { run } from './consumer.ts';

/**
 * A registry of npm that has these tarballs as the newest versions of their packages. For all others it leads to the
 * registry that npm is configured with.
 */
export async function startRegistry(tarballs: readonly string[]): Promise<AsyncDisposable & Readonly<{ url: string }>> {
  const upstream = (await run('npm', ['config', 'get', 'registry'])).stdout.trim().replace(/\/$/, '');
  const files = new Map<string, Buffer>();
  const documents = new Map<string, (url: string) => object>();
  for (const [index, tarball] of tarballs.entries()) {
    const bytes = await readFile(tarball);
    const { stdout } = await run('tar', ['-xzOf', tarball, 'package/package.json']);
    const manifest = JSON.parse(stdout) as { name: string; version: string };
    const { name, version } = manifest;
    const place = `/-/${index}.tgz`;
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    files.set(place, bytes);
    documents.set(`/${name}`, (url) => ({
      name,
      'dist-tags': { latest: version },
      versions: { [version]: { ...manifest, dist: { tarball: url + place, integrity } } },
    }));
  }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/');
    const file = files.get(path);
    const document = documents.get(path);
    if (file !== undefined) return void response.end(file);
    if (document === undefined) return void response.writeHead(302, { location: upstream + request.url }).end();
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(document(`http://${request.headers.host}`)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
