import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scheduleFields } from '../../src/api/schedules.ts';
import { serviceActor } from '../../src/commands/audit.ts';
import { changeSchedule, deleteSchedule, setSchedulePaused } from '../../src/commands/change-schedule.ts';
import { changeWebhook, deleteWebhook } from '../../src/commands/change-webhook.ts';
import { putSchedule } from '../../src/commands/put-schedule.ts';
import { putWebhook } from '../../src/commands/put-webhook.ts';
import { type Declarations, readDeclarations } from '../../src/declarations/declarations.ts';
import { declare } from '../../src/declarations/declare.ts';
import { readDeclarationFiles } from '../../src/declarations/read-files.ts';
import { WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { toScheduleColumns } from '../../src/http/bodies/schedule-body.ts';
import { listSchedules } from '../../src/store/around/schedules.ts';
import { listWebhooks } from '../../src/store/around/webhooks.ts';
import { testDeps } from '../http/test-api.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const KINDS = ['webhooks', 'schedules'] as const;
type Kind = (typeof KINDS)[number];
const KEYS = ['a', 'b', 'c'] as const;

/** What the key of a kind stands for, by docs/webhooks.md. */
type Thing = Readonly<{ text: string; declaredBy: string | null; stopped: 'by hand' | 'undeclared' | null }>;
type World = Readonly<Record<Kind, Readonly<Record<string, Thing>>>>;

type Lists = Readonly<Record<Kind, Readonly<Record<string, string>> | null>>;
type Act =
  | Readonly<{ does: 'put' | 'patch'; kind: Kind; key: string; text: string }>
  | Readonly<{ does: 'stop' | 'go' | 'delete'; kind: Kind; key: string }>
  | Readonly<{ does: 'start'; as: string; lists: Lists; processes: number }>;

/** The world after an act, and how many entries of the audit log it makes. */
function after(world: World, act: Act): Readonly<{ world: World; entries: number }> {
  if (act.does === 'start') return afterStart(world, act);
  const { kind, key } = act;
  const { [key]: thing, ...others } = world[kind];
  const becoming = (next: Thing | null) => ({ ...world, [kind]: next === null ? others : { ...others, [key]: next } });
  if (act.does === 'put') {
    const next = put(thing, act.text, null);
    return { world: becoming(next), entries: isEqual(thing, next) ? 0 : 1 };
  }
  if (thing === undefined) return { world, entries: 0 };
  if (act.does === 'patch') return { world: becoming({ ...thing, text: act.text }), entries: 1 };
  if (act.does === 'delete') return { world: becoming(null), entries: 1 };
  return { world: becoming({ ...thing, stopped: act.does === 'stop' ? 'by hand' : null }), entries: 1 };
}

const put = (thing: Thing | undefined, text: string, declaredBy: string | null): Thing => ({
  ...{ text, declaredBy },
  stopped: thing?.stopped === 'by hand' ? 'by hand' : null,
});
const isEqual = (one: Thing | undefined, other: Thing): boolean => JSON.stringify(one) === JSON.stringify(other);

function afterStart(world: World, { as, lists }: Extract<Act, { does: 'start' }>) {
  let entries = 0;
  const next = Object.fromEntries(
    KINDS.map((kind): [Kind, Record<string, Thing>] => {
      const things = { ...world[kind] };
      const declared = lists[kind];
      for (const [key, text] of Object.entries(declared ?? {})) things[key] = put(things[key], text, as);
      for (const [key, thing] of Object.entries(things)) {
        const isGone = declared !== null && thing.declaredBy === as && !(key in declared) && thing.stopped === null;
        if (isGone) things[key] = { ...thing, stopped: 'undeclared' };
        if (!isEqual(world[kind][key], things[key] as Thing)) entries++;
      }
      return [kind, things];
    }),
  ) as World;
  return { world: next, entries };
}

const kind = fc.constantFrom(...KINDS);
const key = fc.constantFrom(...KEYS);
const text = fc.constantFrom('one', 'two');
const list = fc.dictionary(key, text, { maxKeys: KEYS.length, noNullPrototype: true });
const lists = fc.record({ webhooks: fc.option(list), schedules: fc.option(list) });
const start = fc.record({
  ...{ does: fc.constant('start' as const), as: fc.constantFrom('program', 'reports', 'files') },
  ...{ lists, processes: fc.constantFrom(1, 1, 2) },
});
const byHand = fc.oneof(
  fc.record({ does: fc.constantFrom('put' as const, 'patch' as const), kind, key, text }),
  fc.record({ does: fc.constantFrom('stop' as const, 'go' as const, 'delete' as const), kind, key }),
);
const acts = fc.array(fc.oneof(start, byHand), { minLength: 3, maxLength: 10 });

let api: Awaited<ReturnType<typeof testDeps>>;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeAll(async () => {
  api = await testDeps();
  folder = await temporaryFolder();
});
afterAll(async () => {
  await folder[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
});

const SECRET = 'x'.repeat(32);
const actor = serviceActor('default');
const webhook = (name: string) => ({ url: `https://${name}.example/`, secret: SECRET });
const schedule = (content: string) => ({ agent: 'coder', cron: '0 9 * * *', content });
const columns = (content: string) => toScheduleColumns(scheduleFields.parse(schedule(content)));

async function readAll() {
  const webhooks = await listWebhooks(api.db, 'default');
  const schedules = await listSchedules(api.db, 'default');
  const { entries } = await api.db
    .selectFrom('audit_log')
    .select(({ fn }) => fn.countAll<string>().as('entries'))
    .executeTakeFirstOrThrow();
  return { webhooks, schedules, entries: Number(entries) };
}
type All = Awaited<ReturnType<typeof readAll>>;

function worldOf({ webhooks, schedules }: All): World {
  const stoppedBy = (reason: string | null, undeclared: string) =>
    reason === null ? null : reason === undeclared ? ('undeclared' as const) : ('by hand' as const);
  return {
    webhooks: Object.fromEntries(
      webhooks.map(({ key, url, declared_by: declaredBy, disabled_for: reason }): [string, Thing] => [
        key ?? '',
        { text: new URL(url).host.split('.')[0] ?? '', declaredBy, stopped: stoppedBy(reason, 'undeclared') },
      ]),
    ),
    schedules: Object.fromEntries(
      schedules.map(({ key, declared_by: declaredBy, paused_reason: reason, ...row }): [string, Thing] => [
        key ?? '',
        { text: textOf(row.content), declaredBy, stopped: stoppedBy(reason, 'no longer declared') },
      ]),
    ),
  };
}
const textOf = (content: unknown): string => /one|two/.exec(JSON.stringify(content))?.[0] ?? '';

async function begin({ as, lists, processes }: Extract<Act, { does: 'start' }>): Promise<void> {
  const declarations = as === 'files' ? await declareInFiles(lists) : declareInProgram(as, lists);
  const deps = { ...api.deps, webhookPolicy: { allowPrivate: false, allowedHosts: [] } };
  await Promise.all(Array.from({ length: processes }, () => declare(deps, declarations)));
}

const declareInProgram = (declaredAs: string, { webhooks, schedules }: Lists): Declarations =>
  readDeclarations({
    declaredAs,
    webhooks: webhooks === null ? undefined : Object.entries(webhooks).map(([key, to]) => ({ key, ...webhook(to) })),
    schedules:
      schedules === null ? undefined : Object.entries(schedules).map(([key, says]) => ({ key, ...schedule(says) })),
  });

async function declareInFiles({ webhooks, schedules }: Lists): Promise<Declarations> {
  for (const name of KINDS) await rm(path.join(folder.path, name), { recursive: true, force: true });
  for (const name of ['agents', ...KINDS]) await mkdir(path.join(folder.path, name), { recursive: true });
  const write = (kind: Kind, key: string, { secret: _, ...fields }: Record<string, string>) =>
    writeFile(path.join(folder.path, kind, `${key}.yaml`), JSON.stringify({ key, ...fields }));
  for (const [key, to] of Object.entries(webhooks ?? {}))
    await write('webhooks', key, { ...webhook(to), secretEnv: 'S' });
  for (const [key, says] of Object.entries(schedules ?? {})) await write('schedules', key, schedule(says));
  return readDeclarationFiles(path.join(folder.path, 'agents'), { S: SECRET });
}

async function perform(act: Act, { webhooks, schedules }: All): Promise<void> {
  const { deps } = api;
  if (act.does === 'start') return begin(act);
  const { kind, key } = act;
  if (act.does === 'put') {
    const events = [...WEBHOOK_EVENTS];
    if (kind === 'webhooks')
      return void (await putWebhook(deps, { actor, key, ...webhook(act.text), events, agent: null, declaredBy: null }));
    return void (await putSchedule(deps, { actor, key, columns: columns(act.text), declaredBy: null }));
  }
  const id = (kind === 'webhooks' ? webhooks : schedules).find((row) => row.key === key)?.id;
  if (id === undefined) return;
  return kind === 'webhooks' ? changeHook(act, id) : changeTimes(act, id);
}

type Change = Exclude<Act, { does: 'start' }>;

async function changeHook(act: Change, webhookId: string): Promise<void> {
  if (act.does === 'delete') return deleteWebhook(api.deps, { actor, webhookId });
  const changes = 'text' in act ? { url: webhook(act.text).url } : { enabled: act.does === 'go' };
  await changeWebhook(api.deps, { actor, webhookId }, changes);
}

async function changeTimes(act: Change, scheduleId: string): Promise<void> {
  if (act.does === 'delete') return deleteSchedule(api.deps, { actor, scheduleId });
  if ('text' in act) {
    await changeSchedule(api.deps, { actor, scheduleId }, async () => columns(act.text));
    return;
  }
  await setSchedulePaused(api.deps, { actor, scheduleId, reason: act.does === 'go' ? null : 'holidays' });
}

const idsOf = ({ webhooks, schedules }: All): Map<string, string> =>
  new Map([
    ...webhooks.map((row) => [`webhook ${row.key}`, row.id] as const),
    ...schedules.map((row) => [`schedule ${row.key}`, row.id] as const),
  ]);

test('whatever is put, changed, deleted and declared in whatever order, each key is there once, as the page says', async () => {
  await fc.assert(
    fc.asyncProperty(acts, async (acts) => {
      await api.db.deleteFrom('webhooks').execute();
      await api.db.deleteFrom('schedules').execute();
      let world: World = { webhooks: {}, schedules: {} };
      for (const act of acts) {
        // Files say of both lists what they are.
        const said =
          act.does !== 'start' || act.as !== 'files'
            ? act
            : { ...act, lists: { webhooks: act.lists.webhooks ?? {}, schedules: act.lists.schedules ?? {} } };
        const before = await readAll();
        await perform(said, before);
        const now = await readAll();
        const expected = after(world, said);
        expect(worldOf(now)).toEqual(expected.world);
        expect(now.entries - before.entries).toBe(expected.entries);
        if (expected.entries === 0) expect(now).toEqual(before);
        const [old, ids] = [idsOf(before), idsOf(now)];
        expect(ids.size).toBe(now.webhooks.length + now.schedules.length);
        for (const [name, id] of old) if (ids.has(name)) expect(ids.get(name)).toBe(id);
        world = expected.world;
      }
    }),
    { numRuns: propertyRuns(0.4) },
  );
});
