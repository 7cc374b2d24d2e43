import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { BatonError, createClient } from '@baton-run/server/client';
import { build } from 'esbuild';
import { isOwn, readBody } from '../local-requests.ts';

// A page with `useChat`, and its backend, which holds the API key and forwards the chat protocol. Run it beside a
// service: npm run example:chat, with BATON_URL, BATON_API_KEY and PORT if they are not the defaults.

/** The headers of an answer that the page receives. Three of them keep an uploaded file from running as a page of this origin. */
const PASSED_HEADERS = [
  'content-type',
  'cache-control',
  'x-vercel-ai-ui-message-stream',
  'content-disposition',
  'content-security-policy',
  'x-content-type-options',
];

/** The paths of the service that a page may request: the chat and its files. */
const PASSED_PATHS = /^(?:\/api\/chat(?:\/.*)?|\/v1\/blobs(?:\/blob_[0-9a-f]{32})?)$/;

/** The service's limit: a file of 20 MiB in a form. */
const MAX_BODY_BYTES = 21_000_000;

type Options = Readonly<{ batonUrl: string; apiKey?: string | undefined; agent?: string; port?: number }>;

const HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Baton chat</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="/main.css" />
  </head>
  <body>
    <div id="root"></div>
    <script type="module" src="/main.js"></script>
  </body>
</html>`;

/** The page's script and style, by their paths. */
async function bundlePage(): Promise<ReadonlyMap<string, Uint8Array>> {
  const folder = path.join(import.meta.dirname, 'page');
  const { outputFiles } = await build({
    entryPoints: [path.join(folder, 'main.tsx')],
    outdir: folder,
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    minify: true,
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  return new Map(outputFiles.map((file) => [`/${path.basename(file.path)}`, file.contents]));
}

/** Null: the Host header names another host. */
function addressOf(request: IncomingMessage): URL | null {
  const address = URL.canParse(request.url ?? '/', 'http://page') ? new URL(request.url ?? '/', 'http://page') : null;
  return address?.origin === 'http://page' ? address : null;
}

/** Serves the page until it is disposed. */
export async function startChatPage({ batonUrl, apiKey, agent, port = 0 }: Options) {
  const assets = await bundlePage();
  const client = createClient({ baseUrl: batonUrl, apiKey });

  /** Forwards body, content type and the page's version of the AI SDK with the API key. Origin and cookies of the page are not sent on. */
  async function enqueueNext(request: IncomingMessage, address: URL, response: ServerResponse): Promise<void> {
    const target = new URL(batonUrl);
    target.pathname = address.pathname;
    target.search = address.search;
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const body = request.method === 'POST' ? await readBody(request, MAX_BODY_BYTES) : undefined;
    if (body === null) return void response.writeHead(413).end(`A body has at most ${MAX_BODY_BYTES} bytes.`);
    const { 'content-type': contentType, 'x-ai-sdk-version': sdkVersion } = request.headers;
    const answer = await fetch(target, {
      method: request.method ?? 'GET',
      headers: {
        ...(contentType !== undefined && { 'content-type': contentType }),
        ...(typeof sdkVersion === 'string' && { 'x-ai-sdk-version': sdkVersion }),
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      },
      signal: gone.signal,
      ...(body !== undefined && body.length > 0 && { body: new Uint8Array(body) }),
    });
    for (const name of PASSED_HEADERS) {
      const value = answer.headers.get(name);
      if (value !== null) response.setHeader(name, value);
    }
    response.writeHead(answer.status);
    if (answer.body === null) response.end();
    else await pipeline(Readable.fromWeb(answer.body), response);
  }

  /**
   * If the service has no agents, returns the name of the bundled agent: the service's refusal then lists the choices.
   */
  async function anyAgent(): Promise<string> {
    const { agents } = await client.agents();
    return (agents.find(({ isDefault }) => isDefault) ?? agents[0])?.name ?? 'workspace';
  }

  /** Answers the page's own requests; null: another request. */
  async function tell(request: IncomingMessage, { pathname, searchParams }: URL): Promise<object | null> {
    if (pathname === '/agents') return { agents: (await client.agents()).agents.map(({ name }) => name) };
    if (pathname.startsWith('/context/')) {
      return client.sessions.context(decodeURIComponent(pathname.slice('/context/'.length)));
    }
    // A chat is a session. Only POST creates one, because any site can make a browser open an address, but not post
    // here.
    if (pathname !== '/chats' || request.method !== 'POST') return null;
    const { id } = await client.sessions.create({ agent: searchParams.get('agent') ?? agent ?? (await anyAgent()) });
    return { id };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = addressOf(request);
    if (address === null || !isOwn(request)) return void response.writeHead(403).end('This is for the page alone.');
    const { pathname } = address;
    const asset = assets.get(pathname);
    if (asset !== undefined) {
      response.setHeader('content-type', pathname.endsWith('.css') ? 'text/css' : 'text/javascript');
      response.end(asset);
    } else if (pathname === '/') {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(HTML);
    } else if (PASSED_PATHS.test(pathname)) {
      await enqueueNext(request, address, response);
    } else {
      const told = await tell(request, address);
      if (told === null) return void response.writeHead(404).end('There is no such page.');
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(told));
    }
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      if (response.headersSent) return void response.destroy();
      const status = error instanceof BatonError ? (error.status ?? 502) : 502;
      response
        .writeHead(status)
        .end(error instanceof BatonError ? `${error.code}: ${error.message}` : 'Baton is away.');
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

if (import.meta.main) {
  const { BATON_URL, BATON_API_KEY, PORT } = process.env;
  const batonUrl = BATON_URL ?? 'http://127.0.0.1:4400';
  const { url } = await startChatPage({ batonUrl, apiKey: BATON_API_KEY, port: Number(PORT ?? 4410) });
  process.stdout.write(`The chat is at ${url}\n`);
}
