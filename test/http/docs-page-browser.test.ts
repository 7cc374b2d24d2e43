import { describe, expect, it } from 'vitest';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { eventually } from '../support/eventually.ts';
import { startTestApi } from './test-api.ts';

const chromium = findChromium();

describe.runIf(chromium !== null)('the page of the API in a browser', () => {
  it.each([
    ['a screen', 1280],
    ['a phone', 390],
  ])('fits %s, asks no other host, and leads to an operation and to a problem code', async (_, width) => {
    await using api = await startTestApi();
    await using browser = await startBrowser(chromium ?? '', { viewport: { width, height: 800 } });
    const page = await browser.context.newPage();
    const asked = new Set<string>();
    const complaints: string[] = [];
    page.on('request', (request) => asked.add(new URL(request.url()).origin));
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.goto(`${api.url}/docs#/sessions/createSession`);
    await page.getByText('"title": "Shipping"').first().waitFor();
    /** The elements that end beyond the right edge, also where an element around them hides that. */
    const tooWide = () =>
      page.evaluate(`[...document.querySelectorAll('body *')]
        .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
        .map((element) => element.tagName + '.' + element.className)`);
    expect(await tooWide()).toEqual([]);
    // Swagger UI's own sheet sets it where the page has its dark class.
    const scheme = () => page.evaluate('getComputedStyle(document.documentElement).colorScheme');
    expect(await scheme()).toBe('dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await eventually(async () => (await scheme()) === 'light dark', 'the page is light again');
    await page.goto('about:blank');
    await page.goto(`${api.url}/docs#conflict`);
    await page.locator('.opblock').first().waitFor();
    // A folded element has a position as well, but no height.
    const isShown = () =>
      page.evaluate(`(({ top, bottom, height }) => height > 0 && bottom > 0 && top < innerHeight)(
        document.getElementById('conflict').getBoundingClientRect())`);
    await eventually(async () => (await isShown()) === true, 'the code is scrolled to');
    expect(await tooWide()).toEqual([]);
    expect([...asked].filter((origin) => origin !== 'null')).toEqual([api.url]);
    expect(complaints).toEqual([]);
  });
});
