import { createHmac } from 'node:crypto';
import { sql } from 'kysely';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { startScheduler } from '../../src/schedules/scheduler.ts';
import { HOOK_SECRET, newestSession, type Place, type Trace, type World } from './world.ts';

/** Every way in, with the files that are its own. A new way in gets a name here, and a cell in every act. */
export const DOORS = {
  route: ['src/http/routes/'],
  useChat: ['src/facades/ui/'],
  completions: ['src/facades/openai/'],
  responses: ['src/facades/openai/'],
  mcp: ['src/facades/mcp/'],
  hook: ['src/facades/hooks/'],
  schedule: ['src/schedules/'],
  child: ['src/delegation/'],
  sendIn: ['src/library/'],
  declaration: ['src/declarations/'],
  client: ['src/http/routes/'],
  cli: ['src/http/routes/', 'src/cli/'],
} as const;
type Door = keyof typeof DOORS;

/** Files that call commands for several doors, or for none that an act comes by. */
export const SHARED = [
  'src/app/dependencies.ts',
  'src/cases/play-case.ts',
  'src/facades/answer-calls.ts',
  'src/facades/chat-session.ts',
  'src/facades/run-details.ts',
  'src/http/http-deps.ts',
  'src/http/middleware/audit-trail.ts',
];

export type Do = (world: World, place: Place) => Promise<Place | undefined>;
/** `prepare`: in place of the act's own, for a door that has sessions of its own. */
export type Cell = Readonly<{ prepare?: (world: World) => Promise<Place>; act: Do }>;
/** Why a door does not offer an act. */
export type Refusal = Readonly<{ without: string }>;

export type Act = Readonly<{
  name: string;
  /** Its file in `src/commands`. */
  file: string;
  /** What it leaves, by the command itself as by every door. */
  leaves: Partial<Trace>;
  prepare: (world: World) => Promise<Place>;
  command: Do;
  doors: Readonly<Record<Door, Cell | Refusal>>;
}>;

export const NOWHERE: Place = { sessionId: '', runId: '', callId: '', messageId: '' };

export const ses = ({ sessionId }: Place): string => formatId('session', sessionId);
export const run = ({ runId }: Place): string => formatId('run', runId);
export const msg = ({ messageId }: Place): string => formatId('message', messageId);
export const GO = [{ type: 'text', text: 'Go' }] as const;

export function mapDoors(doors: Act['doors'], change: (cell: Cell | Refusal) => Cell | Refusal): Act['doors'] {
  return Object.fromEntries(Object.entries(doors).map(([door, cell]) => [door, change(cell)])) as Act['doors'];
}

export async function ok(answer: Promise<Response>): Promise<Response> {
  const response = await answer;
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response;
}

/** A cell that asks a route. */
export const post = (route: (place: Place) => string, body: (place: Place) => unknown = () => ({})): Cell => ({
  act: async (world, place) => void (await ok(world.request('POST', route(place), body(place)))),
});

export const client = (call: (world: World['baton']['client'], place: Place) => Promise<unknown>): Cell => ({
  act: async ({ baton }, place) => void (await call(baton.client, place)),
});

export const cli = (args: (place: Place) => readonly string[]): Cell => ({
  act: async ({ cli: baton }, place) => void (await baton(...args(place))),
});

export const NO_ACT = { without: 'its protocol has no such act' };
export const NO_CHAT_ACTS = { useChat: NO_ACT, completions: NO_ACT, responses: NO_ACT, mcp: NO_ACT };
export const ONLY_SENDS = { without: 'it only sends' };
export const ONLY_DECLARES = { without: 'it only puts webhooks and schedules' };
export const SENDERS = {
  ...{ hook: ONLY_SENDS, schedule: ONLY_SENDS, child: ONLY_SENDS, sendIn: ONLY_SENDS },
  declaration: ONLY_DECLARES,
};

export const chatMessage = (text: string) => ({ id: 'u1', role: 'user', parts: [{ type: 'text', text }] });

export const mcp = (method: string, params: (place: Place) => object): Cell =>
  post(
    () => '/mcp',
    (place) => ({ jsonrpc: '2.0', id: 1, method, params: params(place) }),
  );

/** The session with its newest run. */
export async function placeOf({ deps }: World, sessionId: string): Promise<Place> {
  const row = await deps.db
    .selectFrom('runs')
    .select('id')
    .where('session_id', '=', sessionId)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  return { sessionId, runId: row?.id ?? '', callId: '', messageId: '' };
}

/** Makes a schedule that has fired once. `messageId`: the schedule. */
export async function firedSchedule(world: World, fields: object): Promise<Place> {
  const schedule = { agent: 'tester', cron: '0 0 1 1 *', content: 'Go', ...fields };
  const created = await (await ok(world.request('POST', '/v1/schedules', schedule))).json();
  const id = parseId('schedule', String(Object(created).id)) ?? '';
  await fire(world, id);
  return { ...(await placeOf(world, await newestSession(world))), messageId: id };
}

/** Lets a schedule be due, and a scheduler find it. */
export async function fire({ deps }: World, id: string): Promise<void> {
  await sql`
    update schedules set next_fire_at = clock_timestamp() - interval '1 second', due_at = clock_timestamp() - interval '1 second'
    where id = ${id}`.execute(deps.db);
  await using scheduler = startScheduler(deps, 3_600_000);
  await scheduler.look();
}

/** Sends a signed request; its session is named by `callId`. */
export const hook =
  (name: string): Do =>
  async (world, { callId }) => {
    const body = JSON.stringify({ customer: callId, text: 'Go' });
    const signature = createHmac('sha256', HOOK_SECRET).update(body).digest('hex');
    const headers = { 'x-sig': signature, 'x-id': world.deps.newId() };
    await ok(world.request('POST', `/v1/hooks/${name}`, body, headers));
    return { ...(await placeOf(world, await newestSession(world))), callId };
  };

export const newCustomer = async ({ deps }: World): Promise<Place> => ({ ...NOWHERE, callId: deps.newId() });

/** Files of `src/commands` without an act of their own, and why. */
export const WITHOUT_ACT: Readonly<Record<string, string>> = {
  'after-commit': 'the effects of all acts',
  audit: 'the audit entries of all acts',
  'begin-child': 'no person asks for it: the door `child` sends by it',
  'cancel-unread': 'completions cancel by it',
  'log-in': 'the console alone has logins: test/http/console.test.ts',
  'next-fire': 'the times of change-schedule and fire-schedule',
  'upload-file': 'only adds a file, and has no audit entry: test/http/blobs.test.ts',
  'compact-conversation': 'the door waits for the end of the run: test/facades/response-compaction.test.ts',
  'continue-conversation': 'completions and responses send, answer and resume by it',
  'conversation-facts': 'a part of continue-conversation',
  ports: 'a type',
  'stop-children': 'no person asks for it: test/flow/children.test.ts',
  'tell-parent': 'no person asks for it: test/flow/children.test.ts',
};
