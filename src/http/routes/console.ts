import { accepts } from 'hono/accepts';
import { NONCE, secureHeaders } from 'hono/secure-headers';
import { CONSOLE_PATH } from '../../domain/access.ts';
import { ProblemError } from '../bodies/problem.ts';
import { type ConsoleFile, type ConsoleFiles, consolePage, readConsoleFiles } from '../console-files.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

/**
 * A page runs the scripts and takes the styles that have its nonce, and what such a script imports. To be of this origin
 * is not enough: so is a file that somebody has sent. A picture may be of a file that is about to be sent.
 */
const consoleHeaders = secureHeaders({
  strictTransportSecurity: false,
  xFrameOptions: 'DENY',
  referrerPolicy: 'no-referrer',
  contentSecurityPolicy: {
    defaultSrc: ["'self'"],
    scriptSrc: [NONCE],
    styleSrc: [NONCE],
    workerSrc: ["'none'"],
    imgSrc: ["'self'", 'blob:', 'data:'],
    objectSrc: ["'none'"],
    baseUri: ["'self'"],
    formAction: ["'self'"],
    frameAncestors: ["'none'"],
  },
});

const A_YEAR = 'public, max-age=31536000, immutable';

const NOT_BUILT =
  'The console is not built in this installation: run `npm run build:console`, or start the service with `npm start`';

export type BuiltConsole = Readonly<{
  /** Null: there is none. */
  files: () => Promise<ConsoleFiles | null>;
}>;

/** The console in a folder. It is read once, when it is there and asked for. */
export function openConsole(folder: string): BuiltConsole {
  let reading: Promise<ConsoleFiles | null> | undefined;
  return {
    async files() {
      reading ??= readConsoleFiles(folder);
      const files = await reading;
      if (files === null) reading = undefined;
      return files;
    },
  };
}

/**
 * The console: its files, and its page at every other path below, since the page itself tells its addresses apart. The
 * files hold no data, so they need no key.
 */
export function registerConsoleRoutes(
  app: BatonApp,
  built: BuiltConsole,
  { isMounted = false, consoleAccess }: Pick<HttpDeps, 'isMounted' | 'consoleAccess'>,
): void {
  const login = { isMounted, loginUrl: consoleAccess?.loginUrl ?? null };
  app.use(`${CONSOLE_PATH}/*`, consoleHeaders);
  // Relative, for a prefix that a proxy has taken away.
  app.get(CONSOLE_PATH, (c) => c.redirect(`.${CONSOLE_PATH}/`, 302));
  app.get(`${CONSOLE_PATH}/*`, async (c) => {
    const files = await built.files();
    if (files === null) throw new ProblemError('not_found', NOT_BUILT);
    const route = c.req.path.slice(CONSOLE_PATH.length + 1);
    const file = files.get(route);
    if (file === undefined && route.startsWith('assets/')) {
      throw new ProblemError('not_found', 'The console has no such file: load its page again');
    }
    if (file === undefined || route === 'index.html')
      return c.html(consolePage(files, route, c.get('secureHeadersNonce') ?? '', login), 200);
    return send(file, accepts(c, { header: 'Accept-Encoding', supports: ['gzip'], default: '' }) === 'gzip');
  });
}

function send({ bytes, gzipped, contentType, isHashed }: ConsoleFile, isPacked: boolean): Response {
  return new Response(isPacked ? gzipped : bytes, {
    headers: {
      'content-type': contentType,
      vary: 'accept-encoding',
      ...(isPacked && { 'content-encoding': 'gzip' }),
      ...(isHashed && { 'cache-control': A_YEAR }),
    },
  });
}
