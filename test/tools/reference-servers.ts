// The reference servers of MCP as they are published, over either transport.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { startGateway } from '../../examples/mcp/gateway.ts';
import { freePort } from '../support/free-port.ts';
import { referenceServer } from './mcp-fixture.ts';

export const TRANSPORTS = ['stdio', 'streamable HTTP'] as const;
type ReferenceTransport = (typeof TRANSPORTS)[number];

/** A running server, with its entry in an agent's file. */
type Served = AsyncDisposable & Readonly<{ config: Readonly<{ command: string; args: string[] } | { url: string }> }>;

export const EVERYTHING = { command: process.execPath, args: [referenceServer('everything')] };

/** The client starts a stdio server for each connection, so the test has nothing to stop. */
const onDemand = (config: { command: string; args: string[] }): Served => ({
  config,
  [Symbol.asyncDispose]: async () => undefined,
});

/** The server `everything` speaks both transports itself. */
export async function serveEverything(transport: ReferenceTransport): Promise<Served> {
  if (transport === 'stdio') return onDemand(EVERYTHING);
  const port = await freePort();
  const { kill } = await startHttpServer(port);
  return { config: { url: `http://127.0.0.1:${port}/mcp` }, [Symbol.asyncDispose]: kill };
}

/** The server `filesystem` speaks stdio only: over HTTP it is behind the gateway of the examples. */
export async function serveFilesystem(transport: ReferenceTransport, folder: string): Promise<Served> {
  const args = [referenceServer('filesystem'), folder];
  if (transport === 'stdio') return onDemand({ command: process.execPath, args });
  const gateway = await startGateway(0, process.execPath, args);
  return { config: { url: gateway.url }, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

/** The server `everything` over streamable HTTP, as a process of its own. */
export async function startHttpServer(port: number) {
  const child = spawn(process.execPath, [referenceServer('everything'), 'streamableHttp'], {
    env: { PATH: process.env['PATH'], PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  for await (const text of child.stderr) if (String(text).includes('listening')) break;
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  return { kill, [Symbol.asyncDispose]: kill };
}
