import { expect } from 'vitest';

/** Expects that a service leads a browser to its console, and that the page's script and style are there. */
export async function expectConsole(url: string): Promise<void> {
  const page = await fetch(`${url}/`, { headers: { accept: 'text/html' } });
  expect(page.url).toBe(`${url}/console/`);
  const files = [...(await page.text()).matchAll(/(?:src|href)="\.?\/?(assets\/[^"]+)"/g)].map(([, file]) => file);
  expect(files).toEqual(expect.arrayContaining([expect.stringMatching(/\.js$/), expect.stringMatching(/\.css$/)]));
  for (const file of files) expect((await fetch(`${url}/console/${file}`)).status, file).toBe(200);
}
