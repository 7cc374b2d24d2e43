import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy that serves a service below a prefix, which it takes off. */
export async function startPrefixProxy(target: string, prefix: string): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((asked, answer) => {
    const path = (asked.url ?? '').startsWith(prefix) ? (asked.url ?? '').slice(prefix.length) : null;
    if (path === null) return void answer.writeHead(404).end('outside of the prefix');
    const passed = request(new URL(path, target), { method: asked.method, headers: asked.headers }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers);
      given.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
