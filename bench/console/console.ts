import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import type { BrowserContext, CDPSession, Page } from 'playwright-core';
import { startSimulator } from '../../simulator/server.ts';
import { buildConsole } from '../../src/cli/build-console.ts';
import { type BatonClient, createClient } from '../../src/client/client.ts';
import { parseId } from '../../src/domain/ids.ts';
import type { Db } from '../../src/store/db/database.ts';
import { fillSession } from '../../test/console/support/large-session.ts';
import { findChromium, startBrowser } from '../../test/examples/browser.ts';
import { startChild } from '../../test/faults/world/child.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import type { Bench } from '../bench.ts';
import { createBenchDatabase } from '../database.ts';
import { percentileOf, type Row, toRow } from '../row.ts';

const FULL = { runs: 500, sessions: 100_000, openings: 7, searches: 25, words: 400 };
const SMALL = { runs: 5, sessions: 100, openings: 1, searches: 2, words: 20 };

const GOALS = { usableMs: 1_000, frameMs: 50, memoryMb: 150, searchMs: 50, deltaMs: 150, gzipKb: 300 };

/**
 * The console in Chromium, on a session of 10 000 messages and 76 000 events: until it is usable, the longest frame
 * while it is scrolled, its memory; the delay of live text; the bytes before the first use; and the search among 100 000
 * sessions.
 */
export async function benchConsole({ services, scale }: Bench): Promise<Row[]> {
  const chromium = findChromium({ isWhole: true });
  if (chromium === null) throw new Error('the case console needs a Chromium: BATON_TEST_CHROMIUM names one');
  const size = scale === 'full' ? FULL : SMALL;
  await using stack = new AsyncDisposableStack();
  const world = await openWorld(services, stack);
  const window = { viewport: { width: 1_280, height: 800 }, reducedMotion: 'no-preference' } as const;
  const { context } = stack.use(await startBrowser(chromium, window));
  const large = await fillWorld(world, size);
  const opened = await openLarge(context, `${world.url}/console/sessions/${large}`, size);
  const deltasMs = await followText(context, world, size.words);
  const searchesMs = await search(world, size);
  const named = { case: 'console', backend: 'postgres' };
  return [
    toRow({ ...named, values: opened.usableMs, goal: { atMost: GOALS.usableMs }, timed: 'address to usable session' }),
    toRow({ ...named, values: opened.longestMs, goal: { atMost: GOALS.frameMs }, timed: 'longest frame of a scroll' }),
    toRow({
      ...named,
      values: opened.busiestMs,
      goal: { atMost: GOALS.frameMs },
      timed: 'processor time of its longest task',
    }),
    toRow({
      ...named,
      values: opened.memoryMb,
      goal: { atMost: GOALS.memoryMb },
      unit: 'MB',
      timed: 'heap of the tab',
    }),
    toRow({
      ...named,
      values: opened.gzipKb,
      goal: { atMost: GOALS.gzipKb },
      unit: 'kB',
      timed: 'gzip before first use',
    }),
    toRow({
      ...named,
      values: [percentileOf(deltasMs, 99)],
      goal: { atMost: GOALS.deltaMs },
      timed: 'live text to screen, p99',
    }),
    toRow({ ...named, values: searchesMs, goal: { atMost: GOALS.searchMs }, timed: 'search by title or key' }),
  ];
}

type World = Readonly<{
  url: string;
  db: Db;
  client: BatonClient;
  simulator: Awaited<ReturnType<typeof startSimulator>>;
}>;

/** API and workers in processes of their own, and a model that speaks in short pieces. */
async function openWorld(services: Bench['services'], stack: AsyncDisposableStack): Promise<World> {
  await buildConsole();
  const folder = stack.use(await temporaryFolder());
  const agents = path.join(folder.path, 'agents');
  await mkdir(agents);
  await writeFile(path.join(agents, 'talker.yaml'), 'name: talker\nmodel: simulated/talker\n');
  const { db, url: databaseUrl } = stack.use(await createBenchDatabase(services, 2));
  const simulator = stack.use(await startSimulator({ chunkDelayMs: 15 }));
  const environment = {
    DATABASE_URL: databaseUrl,
    BATON_AGENTS_DIR: agents,
    BATON_WORKSPACE_DIR: path.join(folder.path, 'workspace'),
    BATON_SIMULATOR_URL: simulator.url,
    BATON_PORT: '0',
    BATON_PROCESSES: '1',
  };
  const start = async (name: string) => {
    const file = fileURLToPath(new URL(`../../workers/${name}.ts`, import.meta.url));
    const child = await startChild({ file, environment, onLine: () => undefined });
    stack.defer(async () => {
      child.kill('SIGTERM');
      await child.ended;
    });
    return child;
  };
  await start('steps');
  const url = String((await start('api')).started['url']);
  return { url, db, simulator, client: createClient({ baseUrl: url }) };
}

/** @returns the id of the large session */
async function fillWorld({ client, db }: World, { runs, sessions }: typeof FULL): Promise<string> {
  const { id } = await client.sessions.create({ agent: 'talker', title: 'Large' });
  const uuid = parseId('session', id) ?? '';
  await fillSession(db, uuid, runs);
  await sql`
    insert into sessions (id, tenant_id, agent_name, agent_version, agent_snapshot, title, external_key, metadata, created_at)
    select gen_random_uuid(), tenant_id, agent_name, agent_version, agent_snapshot, 'Order ' || n || ' of customer ' || n % 977,
      'key-' || n, '{}', created_at - n * interval '1 minute'
    from sessions, generate_series(1, ${sessions}::integer) as n where id = ${uuid}`.execute(db);
  await sql`analyze`.execute(db);
  return id;
}

/** Opens it again and again, and scrolls it to its beginning. */
async function openLarge(context: BrowserContext, url: string, { openings }: typeof FULL) {
  const measured = {
    usableMs: [] as number[],
    longestMs: [] as number[],
    busiestMs: [] as number[],
    memoryMb: [] as number[],
    gzipKb: [] as number[],
  };
  // The first one fills the caches of the service.
  for (let opening = 0; opening <= openings; opening++) {
    const page = await context.newPage();
    const cdp = await context.newCDPSession(page);
    await cdp.send('Network.setCacheDisabled', { cacheDisabled: true });
    const beginMs = performance.now();
    await page.goto(url, { waitUntil: 'commit' });
    await page.getByText('Step 19 of run').first().waitFor();
    const usableMs = performance.now() - beginMs;
    const gzipKb = (await page.evaluate<number>(SENT_BYTES)) / 1_000;
    const { longestMs, busiestMs } = await scroll(page, cdp);
    await cdp.send('HeapProfiler.collectGarbage');
    const { usedSize } = await cdp.send('Runtime.getHeapUsage');
    await page.close();
    if (opening === 0) continue;
    measured.usableMs.push(usableMs);
    measured.gzipKb.push(gzipKb);
    measured.longestMs.push(longestMs);
    measured.busiestMs.push(busiestMs);
    measured.memoryMb.push(usedSize / 1_000_000);
  }
  return measured;
}

type TraceEvent = Readonly<{ name: string; pid: number; tid: number; ph: string; tdur?: number }>;

/**
 * The longest frame of a scroll, and the processor time of the longest task of the page's thread meanwhile: other
 * programs of the machine lengthen the first, not the second.
 */
async function scroll(page: Page, cdp: CDPSession) {
  const events: TraceEvent[] = [];
  cdp.on('Tracing.dataCollected', ({ value }) => void events.push(...(value as unknown as TraceEvent[])));
  await cdp.send('Tracing.start', { traceConfig: { includedCategories: ['toplevel', 'devtools.timeline'] } });
  const longestMs = await page.evaluate<number>(SCROLL);
  const isTraced = new Promise((resolve) => cdp.once('Tracing.tracingComplete', resolve));
  await cdp.send('Tracing.end');
  await isTraced;
  const own = events.find(({ name }) => name === 'FireAnimationFrame');
  const tasks = events.filter(
    ({ name, ph, pid, tid }) => name.endsWith('RunTask') && ph === 'X' && pid === own?.pid && tid === own.tid,
  );
  if (tasks.length === 0) throw new Error('the trace of a scroll has no task of its page');
  const busiestMs = Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000;
  return { longestMs, busiestMs };
}

/** Bytes of the page and its files as they were sent. */
const SENT_BYTES = `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(({ name }) => !name.includes('/v1/')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`;

/** Scrolls by half a screen in each frame for 180 frames. @returns the longest time between two of them */
const SCROLL = `new Promise((resolve) => {
  const list = document.querySelector('[aria-label="Transcript"]');
  let [longest, frames, before] = [0, 0, null];
  const step = (now) => {
    if (before !== null) longest = Math.max(longest, now - before);
    before = now;
    list.scrollTop -= list.clientHeight / 2;
    if (++frames < 180) requestAnimationFrame(step);
    else resolve(longest);
  };
  requestAnimationFrame(step);
})`;

/** @returns for each word of an answer, the time from its event at another reader to the screen, in milliseconds */
async function followText(
  context: BrowserContext,
  { client, simulator, url }: World,
  count: number,
): Promise<number[]> {
  const words = Array.from({ length: count }, (_, no) => `w${no};`);
  simulator.script('talker', [{ text: words.join(''), chunkChars: 6, gates: { beforeFirstChunk: 'both watch' } }]);
  const { id } = await client.sessions.create({ agent: 'talker', title: 'Live' });
  const page = await context.newPage();
  await page.goto(`${url}/console/sessions/${id}`);
  await page.getByLabel('Message').waitFor();
  await page.evaluate(WATCH);
  const { runId } = await client.send(id, 'Talk');
  const toldAtMs = new Map<number, number>();
  let text = '';
  for await (const event of client.runs.follow(runId, { after: 0 })) {
    simulator.gate('both watch').release();
    if (event.type !== 'llm:chunk') continue;
    text += event.data.content;
    const no = text.split(';').length - 2;
    if (no >= 0 && !toldAtMs.has(no)) toldAtMs.set(no, performance.timeOrigin + performance.now());
  }
  await page
    .getByText(`w${count - 1};`)
    .first()
    .waitFor();
  const shown = await shownAtMs(page);
  await page.close();
  return [...toldAtMs].flatMap(([no, atMs]) => {
    const seenMs = shown.find(([upto]) => upto >= no)?.[1];
    return seenMs === undefined ? [] : [Math.max(0, seenMs - atMs)];
  });
}

/** Notes when the screen has shown how many words: after the frame that painted them. */
const WATCH = `(() => {
  globalThis.shown = [];
  const look = () => {
    const found = document.querySelector('[aria-label="Transcript"]')?.textContent.match(/w\\d+;/g);
    const last = found === null || found === undefined ? -1 : Number(found.at(-1).slice(1, -1));
    if (last > (globalThis.shown.at(-1)?.[0] ?? -1)) globalThis.shown.push([last, performance.timeOrigin + performance.now()]);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()`;

const shownAtMs = (page: Page) => page.evaluate<[number, number][]>('globalThis.shown');

/** Searches by title and by key in turn. */
async function search({ client }: World, { searches, sessions }: typeof FULL): Promise<number[]> {
  const tookMs: number[] = [];
  for (let no = -5; no < searches; no++) {
    const wanted = 1 + (((no + 5) * 7_919) % sessions);
    const beginMs = performance.now();
    const page = await client.sessions.list({ q: no % 2 === 0 ? `order ${wanted}` : `key-${wanted}`, limit: 50 });
    // The first ones fill the caches.
    if (no >= 0) tookMs.push(performance.now() - beginMs);
    if (page.sessions.length === 0) throw new Error(`the search does not find session ${wanted}`);
  }
  return tookMs;
}
