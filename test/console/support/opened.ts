import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';

/** The folder for pictures of the pages. Without it none are taken. */
const screenshots = process.env['BATON_TEST_SCREENSHOTS'];

export type Opened = Readonly<{
  page: Page;
  /** Errors of scripts, and errors on the browser's console. */
  complaints: string[];
  /** The origins that the page has asked. */
  origins: Set<string>;
  /** Keeps a picture, where BATON_TEST_SCREENSHOTS names a folder. */
  look: (name: string) => Promise<void>;
}>;

type Options = Readonly<{ width?: number; height?: number; scheme?: 'light' | 'dark' }>;

/** A new tab at an address. */
export async function openTab(context: BrowserContext, url: string, options: Options = {}): Promise<Opened> {
  const { width = 1280, height = 800, scheme = 'light' } = options;
  const page = await context.newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  const complaints: string[] = [];
  const origins = new Set<string>();
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('request', (request) => origins.add(new URL(request.url()).origin));
  await page.goto(url);
  return {
    page,
    complaints,
    origins,
    look: async (name) => {
      if (screenshots !== undefined) await page.screenshot({ path: path.join(screenshots, `${name}.png`) });
    },
  };
}

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

type Violation = Readonly<{ id: string; nodes: readonly Readonly<{ target: readonly string[] }>[] }>;

/** What axe finds against the page: the rule with the places. */
export async function accessProblems(page: Page): Promise<string[]> {
  // The script is evaluated, because the policy of the page forbids to add one.
  await page.evaluate(await readFile(axe, 'utf8'));
  const { violations } = await page.evaluate<Readonly<{ violations: readonly Violation[] }>>(
    'axe.run(document, { resultTypes: ["violations"] })',
  );
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(' | ')}`);
}

/** The elements that end beyond the right edge of the page and that no scrolled region holds. */
export const tooWide = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`[...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => element.closest('[data-scroller], [data-wide]') === null)
    .map((element) => element.tagName + '.' + element.className)`);

/** The names of the lists and pages whose content is wider than they are. Tables scroll in a region of their own. */
export const scrolledSideways = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`[...document.querySelectorAll('[data-scroller]')]
    .filter((element) => element.scrollWidth > element.clientWidth + 1)
    .map((element) => element.getAttribute('aria-label') ?? element.className)`);
