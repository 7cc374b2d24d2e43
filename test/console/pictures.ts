// Takes the pictures of docs/console.md and docs/library.md: node test/console/pictures.ts [FOLDER [all]]. With `all` it takes every page
// in light, in dark and on a phone, as PNG, to look at.
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { sql } from 'kysely';
import { startSimulator } from '../../simulator/server.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { buildConsole } from '../../src/cli/build-console.ts';
import { createClient } from '../../src/client/client.ts';
import { createBaton, simulated } from '../../src/library/baton.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { openTab } from './support/opened.ts';
import { beginSession, fillWorld, WORLD_AGENTS, WORLD_TOOLS } from './support/world.ts';

/** The pages with words that each shows once it has its data; `docs` marks those of the manual. */
const PAGES: readonly Readonly<{ name: string; path: string; words: string; docs?: true }>[] = [
  { name: 'sessions', path: 'sessions', words: 'Weekly numbers', docs: true },
  { name: 'search', path: 'sessions?q=30+kg', words: 'are not free', docs: true },
  { name: 'session', path: 'sessions/SESSION?step=2', words: 'are not free', docs: true },
  { name: 'tree', path: 'sessions/TREE', words: 'How long does', docs: true },
  { name: 'playground', path: 'playground', words: 'Answers customers' },
  { name: 'inbox', path: 'inbox', words: 'Arguments', docs: true },
  { name: 'runs', path: 'runs', words: 'Status and cause' },
  { name: 'errors', path: 'errors', words: 'The deployment takes no', docs: true },
  { name: 'usage', path: 'usage', words: 'Days are in UTC', docs: true },
  { name: 'workers', path: 'workers', words: 'Last sign of life' },
  { name: 'agents', path: 'agents', words: 'Reads numbers' },
  { name: 'schedules', path: 'schedules?open=SCHEDULE', words: 'fired', docs: true },
  { name: 'webhooks', path: 'webhooks', words: 'Nothing has been sent' },
  { name: 'keys', path: 'keys', words: 'There is no key' },
  { name: 'audit', path: 'audit', words: 'schedule create' },
];

/** The words of pages that show other words on a narrow screen. */
const NARROW_WORDS: Readonly<Record<string, string>> = { inbox: 'refund', runs: 'waits for refund' };

const TEAM = [
  {
    name: 'lead',
    description: 'Splits a question, and gives its parts to others.',
    tools: [{ agent: 'researcher', description: 'Looks into one part.' }],
  },
  { name: 'researcher', description: 'Looks into one part of a question.', tools: ['test'] },
];

const PARTS = [
  'What do the three largest carriers charge for 30 kg?',
  'Which of our orders of last month were above 30 kg?',
  'How long does each carrier take to Spain?',
];

/** A service on an embedded Postgres, with a priced model. */
async function startService() {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const simulator = stack.use(await startSimulator({ chunkChars: 24 }));
  const prices = { input: 0.75, cachedInput: 0.075, cacheWrite: null, output: 4.5, request: 0 };
  const agents = [...WORLD_AGENTS, ...TEAM].map((agent) =>
    agentSchema.parse({ model: `simulated/${agent.name}`, ...agent }),
  );
  const environment = {
    BATON_DATA_DIR: path.join(folder.path, 'data'),
    BATON_WORKSPACE_DIR: path.join(folder.path, 'workspace'),
    BATON_SIMULATOR_URL: simulator.url,
    BATON_PORT: '0',
    BATON_LOG_LEVEL: 'silent',
  };
  const deps = stack.use(
    await openDependencies(loadConfig(environment), {
      migrate: true,
      agents: createCatalogue(agents),
      toolSets: { test: WORLD_TOOLS },
      modelOverrides: [{ provider: 'simulated', model: '*', prices, contextWindow: 128_000 }],
    }),
  );
  stack.use(await startJobWorker(deps));
  const { url } = stack.use(await startApi(deps));
  const owned = stack.move();
  return {
    url,
    simulator,
    db: deps.db,
    databaseUrl: deps.databaseUrl,
    client: createClient({ baseUrl: url }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Adds runs on the days before today, which only the sums show. */
async function addPast(db: Db): Promise<void> {
  await sql`
    insert into runs (id, session_id, tenant_id, kind, status, created_at, started_at, finished_at, input_tokens,
      output_tokens, cache_read_tokens, cost_usd, step_count)
    select gen_random_uuid(), s.id, s.tenant_id, 'task', 'completed', at, at, at + interval '40 s', tokens,
      tokens / 30, tokens * 7 / 10, tokens * 0.0000004, 3
    from (select * from sessions where title not like 'Why%') s
    cross join generate_series(1, 29) as day
    cross join lateral (select clock_timestamp() - day * interval '1 day' as at,
      (20000 + 15000 * (1 + sin(day + extract(microseconds from s.created_at)))::int * (day % 5 + 1)) as tokens) run`.execute(
    db,
  );
}

type Service = Awaited<ReturnType<typeof startService>>;

/** A session whose agent waits for the last of three others, until the gate `parts` opens. */
async function beginTree({ client, simulator }: Service): Promise<string> {
  simulator.script('lead', [
    {
      text: 'I have three parts looked into.',
      toolCalls: PARTS.map((task) => ({ name: 'researcher', input: { task } })),
    },
    { text: 'The second carrier is the cheapest for most of our orders.' },
  ]);
  simulator.script('researcher', ({ messages }) => {
    const isLast = messages.some(({ text }) => text.includes('How long'));
    const isAsked = messages.some(({ role }) => role === 'tool');
    if (!isAsked) return { toolCalls: [{ name: 'search_docs', input: { query: 'carriers' } }] };
    return { text: 'It stands in shipping.md.', ...(isLast && { gates: { beforeFirstChunk: 'parts' } }) };
  });
  const { id, runId } = await beginSession(client, 'lead', 'Another carrier?', 'Should we change the carrier?');
  for (;;) {
    const { children = [] } = await client.runs.get(runId);
    if (children.filter(({ status }) => status === 'completed').length === 2) return id;
    await setTimeout(50);
  }
}

/** Adds two schedules, of which one has fired once. @returns the id of that one */
async function addSchedules({ client }: Service): Promise<string> {
  const weekly = { agent: 'analyst', title: 'Numbers of the week', content: 'Sum up the week.', cron: '0 9 * * 1' };
  const nightly = { agent: 'nightly', title: 'Tidying', content: 'Tidy up the workspace.', cron: '30 3 * * *' };
  const { id } = await client.schedules.create({ ...weekly, timezone: 'Europe/Berlin' });
  await client.schedules.create({ ...nightly, timezone: 'Europe/Berlin' });
  await client.schedules.run(id);
  return id;
}

/** A program of its own that has mounted Baton behind its login. */
async function startProgram({ databaseUrl }: Service): Promise<AsyncDisposable & { url: string }> {
  await using stack = new AsyncDisposableStack();
  const baton = stack.use(
    await createBaton({
      ...{ databaseUrl, schema: 'shop', agents: [{ name: 'clerk', model: simulated(['Done.']) }] },
      console: { authenticate: () => null, loginUrl: '/login?next={page}' },
    }),
  );
  const server = createServer((request, response) => {
    // As a router of a framework does: the path below its place.
    request.url = (request.url ?? '').replace(/^\/agent(?=\/)/, '');
    void baton.handler(request, response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  stack.defer(() => void server.close());
  const owned = stack.move();
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/agent`, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const [folder = path.join(import.meta.dirname, '../../docs/console'), mode] = process.argv.slice(2);
const chromium = findChromium();
if (chromium === null) throw new Error('the pictures need a Chromium');
await buildConsole();
await mkdir(folder, { recursive: true });
await using service = await startService();
await fillWorld(service);
await addPast(service.db);
const tree = await beginTree(service);
const schedule = await addSchedules(service);
await service.client.webhooks.create({ url: 'https://shop.example/baton', secret: 'x'.repeat(32), agent: 'support' });
await using browser = await startBrowser(chromium);
/** The browser encodes the pictures as WebP, which makes the smaller files. */
const painter = await browser.context.newPage();
const MAX_BYTES = 60_000;
async function toWebp(png: Buffer): Promise<Buffer> {
  for (let quality = 0.92; ; quality -= 0.06) {
    const encoded = await painter.evaluate<string>(`(async () => {
      const bytes = await (await fetch('data:image/png;base64,${png.toString('base64')}')).blob();
      const image = await createImageBitmap(bytes);
      const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
      canvas.getContext('2d').drawImage(image, 0, 0);
      return canvas.toDataURL('image/webp', ${quality}).split(',')[1];
    })()`);
    const webp = Buffer.from(encoded, 'base64');
    if (webp.length <= MAX_BYTES || quality < 0.5) return webp;
  }
}
const looks =
  mode === 'all'
    ? ([
        ['', { width: 1280, height: 800 }],
        ['-dark', { width: 1280, height: 800, scheme: 'dark' }],
        ['-phone', { width: 390, height: 800 }],
      ] as const)
    : ([['', { width: 1280, height: 620 }]] as const);
const { sessions } = await service.client.sessions.list({ q: 'why shipping charged' });
const shown = sessions.find(({ title }) => title === 'Why was shipping charged?');
// Workers index words behind the steps.
while ((await service.client.sessions.list({ q: '30 kg' })).sessions.every(({ hit }) => hit === null)) {
  await setTimeout(50);
}
for (const [suffix, look] of looks) {
  for (const { name, path: place, words, docs } of PAGES) {
    if (mode !== 'all' && docs === undefined) continue;
    const url = `${service.url}/console/${place
      .replace('SESSION', shown?.id ?? '')
      .replace('TREE', tree)
      .replace('SCHEDULE', schedule)}`;
    const { page, complaints } = await openTab(browser.context, url, look);
    const isNarrow = look.width < 1_000;
    await page
      .getByText((isNarrow ? NARROW_WORDS[name] : undefined) ?? words)
      .first()
      .waitFor();
    if (name === 'errors') await page.getByText('The deployment takes no').first().click();
    if (name === 'inbox' && !isNarrow) await page.keyboard.press('j');
    // Fonts and charts have their place after the next frame.
    await page.waitForTimeout(300);
    const png = await page.screenshot();
    if (mode === 'all') await writeFile(path.join(folder, `${name}${suffix}.png`), png);
    else await writeFile(path.join(folder, `${name}.webp`), await toWebp(png));
    for (const complaint of complaints) process.stderr.write(`${name}${suffix}: ${complaint}\n`);
    await page.close();
  }
}
await using program = await startProgram(service);
const login = await openTab(browser.context, `${program.url}/console/`, { width: 720, height: 400 });
await login.page.getByLabel('API key').waitFor();
const png = await login.page.screenshot();
if (mode === 'all') await writeFile(path.join(folder, 'login.png'), png);
else await writeFile(path.join(folder, 'login.webp'), await toWebp(png));
service.simulator.gate('parts').release();
