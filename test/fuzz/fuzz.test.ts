import { expect, test } from 'vitest';
import { type DocumentedRoute, readRoutes, readSchemas } from '../http/documented-routes.ts';
import { startTestApi, type TestApi } from '../http/test-api.ts';
import { createRowReader, createTenant, type Tenant } from '../http/two-tenants.ts';
import { eventually } from '../support/eventually.ts';
import { createRandom } from '../support/random.ts';
import { ask, type Exchange, judgeExchange, remember } from './answer.ts';
import { type FuzzRequest, makeRequest } from './request.ts';

// `npm run fuzz` makes ten thousand of them; the short form says as much about the routes, less about their corners.
const REQUESTS = Number(process.env['BATON_FUZZ_REQUESTS'] ?? 600);
const SEED = process.env['BATON_FUZZ_SEED'] ?? '7';
const WITHIN_MS = 3_600_000;
/** More of the same kind say nothing more. */
const MAX_WRONG = 20;

/** Follows every session that the tenant has from the start, until the signal aborts. */
function listen(
  api: TestApi,
  tenant: Tenant,
  signal: AbortSignal,
): Readonly<{ heard: string[]; over: Promise<unknown> }> {
  const heard: string[] = [];
  const follow = async (id: string): Promise<void> => {
    const headers = { ...tenant.key.headers, accept: 'text/event-stream' };
    const response = await fetch(`${api.url}/v1/sessions/${id}/events`, { headers, signal });
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) heard.push(decoder.decode(chunk, { stream: true }));
  };
  return { heard, over: Promise.allSettled((tenant.ids['ses'] ?? []).map(follow)) };
}

/** An id that is free again may become anybody's: nothing would be foreign any more. */
const isRemoval = ({ method, path }: FuzzRequest): boolean =>
  method === 'DELETE' && /^\/v1\/sessions\/ses_\w+\?/.test(path);

test(
  `${REQUESTS} requests of two tenants, as documented and broken: none fails, tells of the other or stores what is refused`,
  async () => {
    await using api = await startTestApi();
    const tenants = [await createTenant(api, 'alpha'), await createTenant(api, 'beta')] as const;
    const document = (await api.call('GET', '/openapi.json', undefined, tenants[0].key.headers)).body;
    const [routes, schemas] = [readRoutes(document), readSchemas(document)];
    const readRows = await createRowReader(api.db);
    const hangUp = new AbortController();
    const listening = tenants.map((tenant) => listen(api, tenant, hangUp.signal));
    const random = createRandom(`fuzz ${SEED}`);
    const seen = new Map<DocumentedRoute, Set<number | null>>(routes.map((route) => [route, new Set()]));
    const wrong: string[] = [];
    let before = await readRows();

    const hasNoReader = async (): Promise<boolean> => {
      const told = api.db.selectFrom('sessions').select('id').where('conversation_reader_id', 'is not', null);
      return (await told.executeTakeFirst()) === undefined;
    };
    const exchange = async (request: FuzzRequest, actor: Tenant, other: Tenant): Promise<Exchange> => {
      const runsEnded = () => api.logged.filter(({ event }) => event === 'run_ended').length;
      const endedBefore = runsEnded();
      const answer = await ask(api.url, request);
      // What this leaves behind must not change the rows of the next one.
      if (answer.isLeft) await eventually(async () => runsEnded() > endedBefore, 'the run that was left ends');
      if (answer.isHungUp) await eventually(hasNoReader, 'nobody is told an answer any more');
      const asked = `${request.path} ${request.body} ${JSON.stringify(request.headers)}`;
      return { request, asked, answer, actor, other, before, after: await readRows() };
    };
    for (let no = 0; no < REQUESTS && wrong.length < MAX_WRONG; no++) {
      const [actor, other] = random.chance(0.5) ? tenants : [tenants[1], tenants[0]];
      const request = makeRequest({ routes, schemas, actor, other, random });
      if (request.isOwn && isRemoval(request)) continue;
      const made = await exchange(request, actor, other);
      const name = `#${no} of ${actor.name}, ${made.answer.status}`;
      const said = `${request.method} ${made.asked.slice(0, 500)}`;
      wrong.push(...judgeExchange(made).map((what) => `${name}, ${what}: ${said}`));
      if (request.route !== null) seen.get(request.route)?.add(made.answer.status);
      remember(made);
      before = made.after;
    }
    hangUp.abort();
    await Promise.all(listening.map(({ over }) => over));

    expect(wrong).toEqual([]);
    for (const [i, { heard }] of listening.entries()) {
      expect(heard.join('')).toContain('run:queued');
      expect(heard.join('')).not.toContain(tenants[1 - i]?.word);
    }
    expect(api.logged.filter(({ event }) => event === 'http_request_failed')).toEqual([]);
    expect(
      routes.filter((route) => seen.get(route)?.size === 0).map(({ method, path }) => `${method} ${path}`),
    ).toEqual([]);
    process.stdout.write(`fuzz: ${REQUESTS} requests, seed ${SEED}: ${tally(seen)}\n`);
  },
  WITHIN_MS,
);

/** How many routes answered with each status. */
function tally(seen: ReadonlyMap<DocumentedRoute, ReadonlySet<number | null>>): string {
  const statuses = [...seen.values()].flatMap((each) => [...each]).map((status) => status ?? 'no answer');
  const counts = Map.groupBy(statuses, (status) => status);
  return [...counts]
    .map(([status, { length }]) => `${status} from ${length}`)
    .toSorted()
    .join(', ');
}
