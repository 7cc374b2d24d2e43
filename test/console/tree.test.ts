import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Reply } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { findChromium } from '../examples/browser.ts';
import { tasks } from '../flow/children-scenario.ts';
import { type Console, startConsole } from './support/console.ts';
import { accessProblems, openTab, tooWide } from './support/opened.ts';

const chromium = findChromium();

const AGENTS = [
  { name: 'lead', tools: [{ agent: 'researcher', description: 'Looks into one part.' }] },
  { name: 'researcher', description: 'Looks into one part.' },
];

/** The answers for the second and the third part wait until the gates of these parts open. */
function research({ messages }: SimulatedRequest): Reply {
  const words = messages.map(({ text }) => text).join();
  const part = ['part 1', 'part 2'].find((name) => words.includes(name));
  return { text: 'This part is fine.', ...(part !== undefined && { gates: { beforeEnd: part } }) };
}

describe.runIf(chromium !== null)('the tree of a run', () => {
  const stack = new AsyncDisposableStack();
  let started: Console;
  beforeAll(async () => {
    started = stack.use(await startConsole(chromium ?? '', AGENTS));
    started.service.simulator.script('researcher', research);
  });
  afterEach(() => Promise.all(started.context.pages().map((page) => page.close())));
  afterAll(() => stack.disposeAsync());

  it('has a live row for each child below the step that began it, and leads into one and back by a click and by a key', async () => {
    started.service.simulator.script('lead', [tasks('researcher', 3), { text: 'All parts are fine.' }]);
    const { id } = await started.client.sessions.create({ agent: 'lead', title: 'The whole' });
    const { page, complaints, look } = await openTab(started.context, `${started.url}/console/sessions/${id}`);
    const { runId } = await started.client.send(id, 'Is it fine?');
    const child = (words: string) => page.locator('section[aria-label="Steps"] [data-child]', { hasText: words });
    await child('Look at part 0').filter({ hasText: 'completed' }).waitFor();
    // The page has shown this part for a while, so from now on only live events renew it.
    await child('Look at part 2')
      .filter({ hasText: /running.*(?:[1-9]\.\d|\d\d) s$/ })
      .waitFor();
    started.service.simulator.gate('part 2').release();
    await child('Look at part 2').filter({ hasText: 'completed' }).waitFor();
    await child('Look at part 1').filter({ hasText: 'running' }).waitFor();
    const rows = page.locator('section[aria-label="Steps"] [data-step], section[aria-label="Steps"] [data-child]');
    expect(await rows.evaluateAll((all) => all.map((row) => ('step' in row.dataset ? 'step' : 'child')))).toEqual([
      'step',
      'child',
      'child',
      'child',
    ]);
    await page.getByText('1 step · 3 tasks').waitFor();
    expect(await page.getByText('needs an output').count()).toBe(0);
    await look('tree');
    expect(await accessProblems(page)).toEqual([]);
    await child('Look at part 1').click();
    await page.getByRole('heading', { name: 'Look at part 1' }).waitFor();
    expect(page.url()).not.toContain(id);
    await look('tree-child');
    await page.getByRole('link', { name: 'Parent' }).click();
    await page.getByRole('heading', { name: 'The whole' }).waitFor();
    await child('Look at part 1').waitFor();
    await page.keyboard.press('d');
    await page.getByRole('heading', { name: 'Look at part 1' }).waitFor();
    await page.getByLabel('Message').waitFor();
    await page.keyboard.press('u');
    await page.getByRole('heading', { name: 'The whole' }).waitFor();
    await page.getByLabel('Inspector').getByRole('link', { name: 'Look at part 1' }).waitFor();
    const { searchParams } = new URL(page.url());
    expect(Object.fromEntries(searchParams)).toEqual({ run: runId, step: '1', tab: 'tools' });
    await child('Look at part 1').filter({ hasText: 'running' }).waitFor();
    started.service.simulator.gate('part 1').release();
    await child('Look at part 1').filter({ hasText: 'completed' }).waitFor();
    await page.getByText('All parts are fine.').waitFor();
    expect(await started.client.runs.wait(runId)).toMatchObject({ status: 'completed' });
    await look('tree-ended');
    await page.setViewportSize({ width: 390, height: 800 });
    for (const pane of ['Transcript', 'Steps', 'Details']) {
      await page.getByRole('button', { name: pane, exact: true }).click();
      await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
      await look(`tree-phone-${pane}`);
      expect(await tooWide(page), pane).toEqual([]);
      expect(await accessProblems(page), pane).toEqual([]);
    }
    await page.getByRole('link', { name: /researcher.*Look at part 2/ }).click();
    await page.getByRole('heading', { name: 'Look at part 2' }).waitFor();
    expect(complaints).toEqual([]);
  });
});
