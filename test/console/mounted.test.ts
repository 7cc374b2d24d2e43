import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { type Consumer, packForConsumer } from '../package/consumer.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { blocksOf, startProgram } from '../support/pasted.ts';
import { accessProblems, openTab } from './support/opened.ts';

// The test starts a whole program, as a reader of docs/library.md would.
vi.setConfig({ testTimeout: 180_000 });

let consumer: Consumer;
beforeAll(async () => {
  consumer = await packForConsumer(['express']);
}, 400_000);
afterAll(() => consumer[Symbol.asyncDispose]());

/** An app of Express with a login of its own, which puts the person on the request, around the block of the page. */
const programOf = (block: string): string => `
import { createBaton, simulated, tool } from '@baton-run/server';
import express from 'express';
import { z } from 'zod';

const refund = tool({
  description: 'Pays an order back.',
  inputSchema: z.object({ order: z.string() }),
  execute: ({ order }) => 'paid ' + order + ' back',
});
const model = simulated([{ toolCalls: [{ tool: 'refund', input: { order: 'order-7' } }] }, 'It is paid back.']);
const agents = [{ name: 'clerk', model, tools: { refund }, approvals: ['refund'] }];
const app = express();
const session = (request, _response, next) => {
  const [, name] = /sid=(\\w+)/.exec(request.headers.cookie ?? '') ?? [];
  if (name !== undefined) request.user = { name, isAdmin: name === 'ann' };
  next();
};
app.get('/login', ({ query }, response) => response.cookie('sid', 'ann', { httpOnly: true }).redirect(query.next));
${block}
await baton.startWorker();
const { id } = await baton.client.sessions.create({ agent: 'clerk', title: 'The order of Ann' });
await baton.client.send(id, 'Pay order-7 back.');
const { key } = await baton.keys.create({ name: 'Ann' });
const server = app.listen(0, () => console.log('http://localhost:' + server.address().port + '/#' + key));
`;

const chromium = findChromium();
const shows = (page: Page, words: string) => page.getByText(words).first().waitFor();

it.runIf(chromium !== null)(
  'the console in a program of Express is entered by the login of the program, or by a key, and says why it refuses one',
  async () => {
    const block = (await blocksOf('docs/library.md')).find(({ text }) => text.includes('loginUrl:'));
    await using database = await createEmptyDatabase();
    const environment = { ...childEnvironment({}), DATABASE_URL: database.connectionString };
    const file = path.join(consumer.folder, 'mounted.mjs');
    await writeFile(file, programOf(block?.text ?? ''));
    await using app = await startProgram(`node ${file}`, environment, (line) => line);
    const { origin, hash } = new URL(app.url);
    const key = hash.slice(1);

    await using browser = await startBrowser(chromium ?? '', { viewport: { width: 1280, height: 800 } });
    const { page, look } = await openTab(browser.context, `${origin}/agent/console/inbox`);
    const field = page.getByLabel('API key');
    await field.waitFor();
    await look('mounted-login');
    expect(await accessProblems(page)).toEqual([]);
    expect(await page.textContent('main')).not.toContain('npm run');
    await field.fill('baton_wrong');
    await page.keyboard.press('Enter');
    await shows(page, 'There is no such API key');
    await look('mounted-refused');
    await field.fill(key);
    await page.keyboard.press('Enter');
    await shows(page, 'The order of Ann');
    await page.getByRole('button', { name: 'Log out' }).click();
    await field.waitFor();

    await page.getByRole('link', { name: 'Log in' }).click();
    await page
      .getByRole('button', { name: /^Approve a/ })
      .first()
      .click();
    await shows(page, 'Approved refund. The run goes on.');
    expect(new URL(page.url()).pathname).toBe('/agent/console/inbox');
    await page.goto(`${origin}/agent/admin/queues`);
    await page.getByRole('link', { name: 'steps' }).first().waitFor();
    expect((await page.request.post(`${origin}/agent/v1/sessions`, { data: { agent: 'clerk' } })).status()).toBe(401);
  },
);
