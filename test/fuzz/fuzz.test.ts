import { expect, test } from 'vitest';
import { type ProfileName, SESSION_PROFILES } from '../../simulator/profiles.ts';
import { type DocumentedRoute, readRoutes, readSchemas } from '../http/documented-routes.ts';
import { createRandom, type Random } from '../support/random.ts';
import { ask, isRefused, judgeExchange, leaksOf, remember } from './answer.ts';
import { createModel, MODEL_SAYS } from './model.ts';
import { type FuzzRequest, makeRequest } from './request.ts';
import { createPlayer, type FuzzService, type Player, startFuzzService } from './service.ts';
import { judgeStream } from './streams.ts';
import { NOBODY, WORKERS, type Written } from './written.ts';

// `npm run fuzz` makes ten thousand requests. The short form also covers all routes, but fewer of their odd cases.
const REQUESTS = Number(process.env['BATON_FUZZ_REQUESTS'] ?? 800);
const SEED = process.env['BATON_FUZZ_SEED'] ?? '7';
const WITHIN_MS = 7_200_000;
/** The test stops after this many faults: more of the same kind would add nothing. */
const MAX_WRONG = 20;

/** The ways of one agent's endpoint: those that are asked for, else some by the seed. */
function profileFor(random: Random): ProfileName | undefined {
  const asked = process.env['BATON_FUZZ_PROFILE'];
  if (asked === 'none') return undefined;
  const profile = asked === undefined ? random.pick(SESSION_PROFILES) : SESSION_PROFILES.find((name) => name === asked);
  if (profile === undefined) throw new Error(`BATON_FUZZ_PROFILE is none or one of ${SESSION_PROFILES.join(', ')}.`);
  return profile;
}

const nameOf = (profile: ProfileName | undefined): string => profile ?? 'no profile';

/** Follows every session that the tenant has from the start, until the signal aborts. */
function listen(
  { url }: FuzzService,
  { key, ids }: Player,
  signal: AbortSignal,
): Readonly<{ heard: string[]; over: Promise<unknown> }> {
  const sessions = ids['ses'] ?? [];
  const heard = sessions.map(() => '');
  const follow = async (id: string, at: number): Promise<void> => {
    const headers = { ...key.headers, accept: 'text/event-stream' };
    const response = await fetch(`${url}/v1/sessions/${id}/events`, { headers, signal });
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) heard[at] += decoder.decode(chunk, { stream: true });
  };
  return { heard, over: Promise.allSettled(sessions.map(follow)) };
}

/** Notes each request with its actor, and finds stored changes that no noted request was allowed to make. */
function createLedger() {
  const requests = new Map<string, Readonly<{ actor: string; isRefused: boolean; said: string }>>();
  return {
    enter: (writer: string, actor: Player, refused: boolean, said: string) =>
      void requests.set(writer, { actor: actor.name, isRefused: refused, said }),
    judge({ writer, tenant, what }: Written): string[] {
      if (writer === WORKERS) return [];
      const request = requests.get(writer);
      if (writer === NOBODY || request === undefined) return [`${what} of ${tenant} by no request: ${writer}`];
      const { actor, said } = request;
      if (tenant !== actor) return [`${writer} changed the other's rows, ${what}: ${said}`];
      return request.isRefused ? [`${writer} was refused, and something is stored, ${what}: ${said}`] : [];
    },
  };
}

const isOwnRemoval = ({ method, path, isOwn }: FuzzRequest): boolean =>
  isOwn && method === 'DELETE' && /^\/v1\/sessions\/ses_\w+\?/.test(path);

test(
  `${REQUESTS} requests of two tenants, as documented and broken, with workers: none fails, tells of the other or stores what is refused`,
  async () => {
    const random = createRandom(`fuzz ${SEED}`);
    const profile = profileFor(random.fork('profile'));
    await using fuzz = await startFuzzService(profile);
    const { db } = fuzz.service.deps;
    const players = [await createPlayer(fuzz, 'alpha'), await createPlayer(fuzz, 'beta')] as const;
    await fuzz.takeWrites();
    const model = createModel(fuzz, players, random.fork('model'));
    const document: unknown = await (
      await fetch(`${fuzz.url}/openapi.json`, { headers: players[0].key.headers })
    ).json();
    const [routes, schemas] = [readRoutes(document), readSchemas(document)];
    const hangUp = new AbortController();
    const listening = players.map((player) => listen(fuzz, player, hangUp.signal));
    const seen = new Map<DocumentedRoute, Set<number | null>>(routes.map((route) => [route, new Set()]));
    /** By kind of stream: the number of streams in which the model told the actor its own secret. */
    const told = new Map<string, number>();
    const ledger = createLedger();
    const wrong: string[] = [];

    for (let no = 0; no < REQUESTS && wrong.length < MAX_WRONG; no++) {
      const [actor, other] = random.chance(0.5) ? players : [players[1], players[0]];
      // Now and then a route is asked that has not had a request yet, so that each route gets one.
      const due = random.chance(0.2) ? routes.find((route) => seen.get(route)?.size === 0) : undefined;
      const request = makeRequest({ routes, schemas, actor, other, random, due });
      if (isOwnRemoval(request) && random.chance(0.7)) continue;
      const writer = `#${no}`;
      const answer = await ask(fuzz.url, request, writer);
      const asked = `${request.path} ${request.body} ${JSON.stringify(request.headers)}`;
      const name = `${writer} of ${actor.name}, ${answer.status}`;
      const said = `${request.method} ${asked.slice(0, 500)}`;
      ledger.enter(writer, actor, isRefused(answer), `${answer.status} ${said}`);
      const exchange = { request, asked, answer, actor, other };
      const verdict = await judgeExchange(db, exchange);
      wrong.push(...verdict.wrong.map((what) => `${name}, ${what}: ${said}`));
      wrong.push(...(await fuzz.takeWrites()).flatMap(ledger.judge));
      if (request.route !== null) seen.get(request.route)?.add(answer.status);
      const { stream } = answer;
      if (stream !== null && verdict.said.includes(`${actor.word} ${MODEL_SAYS}`)) {
        told.set(stream.kind, (told.get(stream.kind) ?? 0) + 1);
      }
      remember(exchange);
      model.stir();
    }
    model.release();
    hangUp.abort();
    await Promise.all(listening.map(({ over }) => over));
    const failed = fuzz.service.logged.filter(({ event }) => event === 'http_request_failed');
    await fuzz.stopApi();
    wrong.push(...(await fuzz.takeWrites()).flatMap(ledger.judge));

    expect([...wrong, ...model.wrong]).toEqual([]);
    for (const [i, { heard }] of listening.entries()) {
      const [actor, other] = i === 0 ? players : [players[1], players[0]];
      const texts: string[] = [];
      for (const text of heard) {
        const { said, wrong: frames } = await judgeStream('session events', text, false);
        expect(frames).toEqual([]);
        texts.push(said);
        expect(await leaksOf(db, { actor, other, asked: '' }, `${text}\n${said}`)).toEqual([]);
      }
      expect(texts.join('\n')).toContain(`${actor.word} ${MODEL_SAYS}`);
    }
    expect(failed).toEqual([]);
    expect([...told.keys()]).toEqual(expect.arrayContaining(['UI messages', 'completion', 'response']));
    const unseen = routes.filter((route) => seen.get(route)?.size === 0);
    expect(unseen.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
    const streams = [...told].map(([kind, count]) => `${count} of ${kind}`).join(', ');
    process.stdout.write(
      `fuzz: ${REQUESTS} requests, seed ${SEED}, coder over ${nameOf(profile)}: ${tally(seen)}; streams with text: ${streams}\n`,
    );
  },
  WITHIN_MS,
);

/** The number of routes that answered with each status, in words. */
function tally(seen: ReadonlyMap<DocumentedRoute, ReadonlySet<number | null>>): string {
  const statuses = [...seen.values()].flatMap((each) => [...each]).map((status) => status ?? 'no answer');
  const counts = Map.groupBy(statuses, (status) => status);
  return [...counts]
    .map(([status, { length }]) => `${status} from ${length}`)
    .toSorted()
    .join(', ');
}
