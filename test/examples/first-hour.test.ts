import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openTab } from '../console/support/opened.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { type Consumer, packForConsumer, ROOT } from '../package/consumer.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { freePort } from '../support/free-port.ts';
import { startProgram } from '../support/pasted.ts';
import { findChromium, startBrowser } from './browser.ts';

// The test starts a whole service, as a stranger would in the first hour.
vi.setConfig({ testTimeout: 180_000 });

const MAX_LINES = 60;
const EXAMPLE = path.join(ROOT, 'examples/first-hour/server.ts');

let consumer: Consumer;
beforeAll(async () => {
  consumer = await packForConsumer(['express']);
}, 400_000);
afterAll(() => consumer[Symbol.asyncDispose]());

const chromium = findChromium();

it.runIf(chromium !== null)(
  'examples/first-hour works from the packed packages and an empty database: a person approves in the console, and a webhook brings the typed result',
  async () => {
    const program = await readFile(EXAMPLE, 'utf8');
    expect(program.trimEnd().split('\n').length).toBeLessThanOrEqual(MAX_LINES);
    await using database = await createEmptyDatabase();
    await writeFile(path.join(consumer.folder, 'server.ts'), program);
    const environment = {
      ...childEnvironment({}),
      DATABASE_URL: database.connectionString,
      PORT: String(await freePort()),
    };
    await using app = await startProgram(
      `node ${path.join(consumer.folder, 'server.ts')}`,
      environment,
      (line) => line,
    );
    const origin = new URL(app.url).origin;
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ question: 'Please pay order-7 back.' });
    const sent = await fetch(`${origin}/questions`, { method: 'POST', headers, body });
    expect(sent.status).toBe(200);
    await using browser = await startBrowser(chromium ?? '');
    const { page } = await openTab(browser.context, `${app.url}inbox`);
    await page.getByRole('link', { name: 'Log in' }).click();
    await page
      .getByRole('button', { name: /^Approve a/ })
      .first()
      .click();
    await page.getByText('The run goes on', { exact: false }).first().waitFor();
    const outcomes = async () => (await fetch(`${origin}/outcomes`)).json();
    await expect.poll(outcomes).toEqual({
      outcomes: [{ reply: 'order-7 is paid back.', paidBack: 120 }],
      orders: [['order-7', { total: 120, paidBack: 120 }]],
    });
  },
);
