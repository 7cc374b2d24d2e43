import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { html } from 'hono/html';

/** A file of the console as it is sent. `isHashed`: its name changes with its content. */
export type ConsoleFile = Readonly<{
  contentType: string;
  bytes: Uint8Array<ArrayBuffer>;
  gzipped: Uint8Array<ArrayBuffer>;
  isHashed: boolean;
}>;

/** By their paths in the folder: `assets/main-B3f0.js`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const INDEX = 'index.html';

/** All files of a built console, in memory. Null: there is none. */
export async function readConsoleFiles(folder: string): Promise<ConsoleFiles | null> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((name) => CONTENT_TYPES[path.extname(name)] !== undefined);
  if (!names.includes(INDEX)) return null;
  const files = names.map(async (name) => [name, await readConsoleFile(folder, name)] as const);
  return new Map(await Promise.all(files));
}

async function readConsoleFile(folder: string, name: string): Promise<ConsoleFile> {
  const bytes = new Uint8Array(await readFile(path.join(folder, name)));
  return {
    contentType: CONTENT_TYPES[path.extname(name)] ?? 'application/octet-stream',
    bytes,
    gzipped: new Uint8Array(await promisify(gzip)(bytes)),
    isHashed: name.startsWith('assets/'),
  };
}

/** What the build writes where the nonce of the policy belongs: `console/vite.config.ts`. */
const NONCE_PLACE = 'NONCE_OF_PAGE';

/** What the page is told of the login: `isMounted` by a program, which has no commands, and whose own login is here. */
export type LoginPlace = Readonly<{ isMounted: boolean; loginUrl: string | null }>;

/**
 * The page for a path below the console. Its files are named relative to the console's own place, which a proxy may have
 * put below a prefix that this process does not know.
 * @param route the path below the console: `sessions/ses_1`
 * @param nonce of the policy that this page is sent with
 */
export function consolePage(files: ConsoleFiles, route: string, nonce: string, login: LoginPlace): string {
  const page = new TextDecoder().decode(files.get(INDEX)?.bytes);
  const up = '../'.repeat(route.split('/').length - 1);
  const head = html`<head><base href="${up === '' ? './' : up}"><meta name="baton-login" content="${JSON.stringify(login)}">`;
  return page.replaceAll(NONCE_PLACE, nonce).replace('<head>', () => String(head));
}
