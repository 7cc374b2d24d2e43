import { existsSync } from 'node:fs';
import { type BrowserContext, chromium } from 'playwright-core';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A browser without a window, which takes a third less CPU. */
const SHELL = '/usr/bin/chromium-headless-shell';
const WHOLE = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Flags that stop the browser's own requests: it loads only the pages that it is sent to. */
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * The Chromium of this machine, or of BATON_TEST_CHROMIUM. Where there is none: null, and a line on stdout.
 * @param isWhole prefers the full browser that people have: for measurements
 */
export function findChromium({ isWhole = false } = {}): string | null {
  const given = process.env['BATON_TEST_CHROMIUM'];
  const places = isWhole ? [...WHOLE, SHELL] : [SHELL, ...WHOLE];
  const found = given ?? places.find((place) => existsSync(place)) ?? null;
  if (found === null) process.stdout.write('tests: no page is opened in a browser (there is no Chromium here)\n');
  return found;
}

/** Far longer than any wait takes on a busy machine. */
const PATIENCE_MS = 90_000;

/** A browser with a profile of its own. Its user has asked for less motion, because frames take CPU. */
export async function startBrowser(
  executablePath: string,
  options: Readonly<{
    bypassCSP?: boolean;
    viewport?: Readonly<{ width: number; height: number }>;
    reducedMotion?: 'reduce' | 'no-preference';
  }> = {},
): Promise<AsyncDisposable & { context: BrowserContext }> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryFolder());
  const viewport = { width: 900, height: 700 };
  const context = await chromium.launchPersistentContext(path, {
    executablePath,
    args: FLAGS,
    viewport,
    reducedMotion: 'reduce',
    ...options,
  });
  stack.defer(() => context.close());
  context.setDefaultTimeout(PATIENCE_MS);
  const owned = stack.move();
  return { context, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
