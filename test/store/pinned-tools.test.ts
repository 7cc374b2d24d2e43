import { describe, expect, it } from 'vitest';
import type { ToolDrift } from '../../src/domain/run/tool-drift.ts';
import { newId } from '../../src/platform/new-id.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { noteToolDrift, replacePinnedTools } from '../../src/store/work/pinned-tools.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { openRace } from './race.ts';

const DRIFT: ToolDrift = { server: 'docs', tool: 'search', change: 'changed', pinnedHash: 'old', offeredHash: 'new' };

/** A session with definitions of a server, and a run of it at work. */
async function openPinned() {
  const database = await createTestDatabase();
  const race = await openRace(database.db);
  const { db, sessionId } = race;
  const pinnedTools = { docs: { hash: 'old', tools: [] } };
  const snapshot = { name: 'tester', model: 'test/test', pinnedTools };
  await db
    .updateTable('sessions')
    .set({ agent_snapshot: JSON.stringify(snapshot) })
    .execute();
  const { fence } = await race.begin();
  const note = (drift: Partial<ToolDrift> = {}, held = fence) =>
    noteToolDrift(db, held, sessionId, { ...DRIFT, ...drift });
  const repin = () =>
    db.transaction().execute((tx) =>
      replacePinnedTools(tx, { ...race.ref, agentVersion: '1' }, () => ({
        pinnedTools: { docs: { hash: 'new', tools: [] } },
        changes: [{ server: 'docs', added: [], changed: ['search'], removed: [] }],
      })),
    );
  const told = async () =>
    (await readEvents(db, 'default', sessionId, { afterSeq: 0, limit: 100 })).flatMap(({ type, data }) =>
      type === 'tools:drifted' ? [data] : [],
    );
  return { ...race, fence, note, repin, told, [Symbol.asyncDispose]: () => database[Symbol.asyncDispose]() };
}

describe('a tool that has drifted', () => {
  it('is told of once by two calls that find it at the same time', async () => {
    await using pinned = await openPinned();
    const [first, second] = await pinned.inOrder(
      () => pinned.note(),
      () => pinned.note(),
    );
    expect([first, second]).toEqual([expect.any(Number), null]);
    expect(await pinned.told()).toEqual([{ server: 'docs', tool: 'search', change: 'changed' }]);
  });

  it('is not, when somebody accepts the new definitions at the same time; what drifts from those is', async () => {
    await using pinned = await openPinned();
    const [, late] = await pinned.inOrder(
      () => pinned.repin(),
      () => pinned.note(),
    );
    expect(late).toBeNull();
    expect(await pinned.told()).toEqual([]);
    expect(await pinned.note({ pinnedHash: 'new', offeredHash: null, change: 'gone' })).toEqual(expect.any(Number));
  });

  it('is told of by the worker that has the run, and for each thing that it becomes', async () => {
    await using pinned = await openPinned();
    const another = { ...pinned.fence, claimId: newId() };
    await expect(pinned.note({}, another)).rejects.toMatchObject({ code: 'fenced' });
    const became = [
      {},
      {},
      { offeredHash: 'newer' },
      { tool: 'fetch' },
      { offeredHash: null, change: 'gone' as const },
    ];
    const seqs = [];
    for (const drift of became) seqs.push(await pinned.note(drift));
    expect(seqs.map((seq) => seq !== null)).toEqual([true, false, true, true, true]);
    expect(await pinned.told()).toHaveLength(4);
  });
});
