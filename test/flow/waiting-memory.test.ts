import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { z } from 'zod';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';
import { tasks } from './children-scenario.ts';

const HEAP_ON_SIGNAL = new URL('heap-on-signal.ts', import.meta.url).href;

/**
 * Runs that wait before the first snapshot. Until then a process compiles code, opens connections and fills Node's list
 * of its last 250 requests, so it grows.
 */
const FIRST = 170;
/** Half of them wait for a client, the others for a child that waits for a client. */
const MANY = 200;
/** Fewer ids may be left in the heap: those of the latest work may be in buffers and in caches of one entry. */
const MOST_KEPT = 50;

const snapshotSchema = z.object({
  snapshot: z.object({
    meta: z.object({
      node_fields: z.array(z.string()),
      node_types: z.tuple([z.array(z.string())], z.unknown()),
    }),
  }),
  // Millions of them, written by V8: looking at each would take longer than the test.
  nodes: z.custom<readonly number[]>(Array.isArray),
  strings: z.custom<readonly string[]>(Array.isArray),
});
type HeapSnapshot = z.infer<typeof snapshotSchema>;

/** All that is reachable in the process, after a garbage collection. */
async function takeSnapshot(worker: WorkerProcess, folder: string): Promise<HeapSnapshot> {
  process.kill(worker.pid, 'SIGUSR2');
  const file = path.join(folder, 'heap.json');
  const text = await eventually(() => readFile(file, 'utf8').catch(() => null), 'the process writes its heap');
  await rm(file);
  return snapshotSchema.parse(JSON.parse(text));
}

/** Counts of objects by the names of their classes, and of closures by the names of their functions. */
function countObjects({ snapshot, nodes, strings }: HeapSnapshot): ReadonlyMap<string, number> {
  const { node_fields: fields, node_types: types } = snapshot.meta;
  const [typeAt, nameAt] = [fields.indexOf('type'), fields.indexOf('name')];
  const counts = new Map<string, number>();
  for (let at = 0; at < nodes.length; at += fields.length) {
    const type = types[0][nodes[at + typeAt] ?? -1] ?? '';
    if (!['object', 'closure', 'native'].includes(type)) continue;
    const key = `${type} ${strings[nodes[at + nameAt] ?? -1]}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Every UUID that any string of the process has in it, as 32 hex digits: public ids are written so. */
function namedIds({ strings }: HeapSnapshot): ReadonlySet<string> {
  const uuid = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/g;
  return new Set(strings.flatMap((text) => [...text.matchAll(uuid)].map(([id]) => withoutDashes(id))));
}

const withoutDashes = (id: string): string => id.replaceAll('-', '');

const CLIENT = { name: 'browser', description: 'Of the client.', inputSchema: { type: 'object' as const } };
const ASKER = { name: 'asker', model: 'simulated/asker', description: 'Asks.', tools: [{ client: CLIENT }] };
/** Agents whose runs wait. A run of the second has a child that waits. */
const WAITING = [
  { agent: { tools: [{ client: CLIENT }] }, runs: 1 },
  { agent: { model: 'simulated/lead', tools: [{ agent: 'asker', description: 'Asks.' }] }, runs: 2 },
];

interface Kept {
  readonly ids: readonly string[];
  /** Kinds of objects that grew by more than one for every four waits, each with its growth. */
  readonly grown: readonly (readonly [kind: string, more: number])[];
}

function findKept(before: ReadonlyMap<string, number>, snapshot: HeapSnapshot, ids: readonly string[]): Kept {
  const inHeap = namedIds(snapshot);
  const more = [...countObjects(snapshot)].map(([kind, count]) => [kind, count - (before.get(kind) ?? 0)] as const);
  return {
    ids: ids.filter((id) => inHeap.has(withoutDashes(id))),
    grown: more.filter(([, count]) => count > MANY / 4),
  };
}

/** Lets this many runs wait. @returns the ids of their sessions, runs and messages */
async function letWait(service: TestService, count: number): Promise<readonly string[]> {
  const { db, jobs } = service.deps;
  const before = await countWaits(service);
  for (let n = 0; n < count / 2; n++) {
    for (const { agent } of WAITING) await service.send(await service.createSession(agent), 'Go');
  }
  const runs = (WAITING.reduce((sum, each) => sum + each.runs, 0) * count) / 2;
  await eventually(async () => (await countWaits(service)) === before + runs, 'all of them wait');
  await eventually(async () => {
    const { waiting, active } = (await jobs.counts()).step;
    return waiting + active === 0;
  }, 'no job is left');
  const newest = db.selectFrom('runs').select(['id', 'session_id']).orderBy('created_at', 'desc').limit(runs);
  const ids = (await newest.execute()).flatMap((run) => [run.id, run.session_id]);
  const messages = await db.selectFrom('messages').select('id').where('run_id', 'in', ids).execute();
  return [...ids, ...messages.map(({ id }) => id)];
}

async function countWaits({ deps }: TestService): Promise<number> {
  const runs = deps.db.selectFrom('runs').select(({ fn }) => fn.countAll<number>().as('count'));
  return Number((await runs.where('status', '=', 'requires_action').executeTakeFirst())?.count);
}

/** On one backend: `npm run flatness` counts what is left behind on both. */
describe('a worker process', () => {
  const backend = anyBackend();

  it(`that has let ${MANY} runs wait holds nothing of them: no id, no object, no timer, no listener`, async () => {
    await using folder = await temporaryFolder();
    await writeFile(path.join(folder.path, 'asker.yaml'), stringify(ASKER));
    await using service = await startTestService({
      backend,
      agents: [ASKER],
      environment: { BATON_AGENTS_DIR: folder.path },
    });
    for (const model of ['test', 'asker']) {
      service.simulator.script(model, () => ({ toolCalls: [{ name: 'browser', input: {} }] }));
    }
    service.simulator.script('lead', () => tasks('asker', 1));
    const environment = { ...service.environment, HEAP_FOLDER: folder.path };
    await using worker = await startWorkerProcess('steps', environment, ['--import', HEAP_ON_SIGNAL]);
    await letWait(service, FIRST);
    const before = countObjects(await takeSnapshot(worker, folder.path));
    const ids = await letWait(service, MANY);
    // The process may just be reading waiting runs, with their rows and ids. That ends, but a leak does not.
    let kept: Kept | undefined;
    const letGo = eventually(async () => {
      kept = findKept(before, await takeSnapshot(worker, folder.path), ids);
      return kept.ids.length < MOST_KEPT && kept.grown.length === 0;
    }, 'the process lets go of the sessions, runs and messages that wait');
    await letGo.catch((error: unknown) => expect.fail(`${String(error)}: ${JSON.stringify(kept)}`));
  }, 180_000);
});
