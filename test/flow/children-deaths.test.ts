import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { beginChild } from '../../src/delegation/begin-child.ts';
import type { Child } from '../../src/store/session/children.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import { agentOf, childrenOf, LANES, resultsShown, startTeam, takeDue, tasks } from './children-scenario.ts';

const CHILDREN = 3;

type Act = (service: TestService, taken: readonly Child[]) => Promise<void>;

/** Begins children, and dies before their jobs are added. */
const begin: Act = async ({ deps }, taken) => {
  const { signal } = new AbortController();
  const add = () => Promise.reject(new Error('the process has died'));
  const dying = { ...deps, jobs: { ...deps.jobs, add } };
  for (const child of taken) await beginChild(dying, child, signal, LANES);
};

/** Points at which a process dies, each with the work that it has done by then. */
const DEATHS: readonly (readonly [string, Act])[] = [
  ['as it begins children', async () => undefined],
  ['between their begin and their claim', begin],
  ['with one begun and the others not', (service, taken) => begin(service, taken.slice(0, 1))],
  [
    'when they have ended, before it delivers their results',
    async (service, taken) => {
      await begin(service, taken);
      const { deps } = service;
      const noKeeper = { lookAfterChildren: () => undefined, children: { ...deps.children, look: () => undefined } };
      await using _worker = await startJobWorker({ ...deps, ...noKeeper });
      await eventually(
        async () => (await childrenOf(deps.db)).every(({ state }) => state === 'ended'),
        'all children have ended',
      );
      await sql`update children set due_at = clock_timestamp()`.execute(deps.db);
      expect(await takeDue(deps.db)).toHaveLength(CHILDREN);
    },
  ],
];

const CASES = availableBackends().flatMap((backend) => DEATHS.map(([when, act]) => [backend, when, act] as const));

it.each(CASES)('on %s no child is doubled, lost or orphaned by the death of a process %s', async (backend, _, act) => {
  await using service = await startTeam(backend, [agentOf('researcher')]);
  const { simulator, deps } = service;
  simulator.script('test', [tasks('researcher', CHILDREN), { text: 'Done.' }]);
  simulator.script('researcher', [{ text: 'Found.' }]);
  const session = await service.createSession({ tools: [{ agent: 'researcher' }] });
  const { runId } = await service.send(session, 'Find out');
  {
    const noKeeper = { lookAfterChildren: () => undefined, children: { ...deps.children, look: () => undefined } };
    await using _worker = await startJobWorker({ ...deps, ...noKeeper });
    await eventually(async () => (await childrenOf(deps.db)).length === CHILDREN, 'the calls wait for children');
  }
  const taken = await takeDue(deps.db);
  expect(taken).toHaveLength(CHILDREN);
  await act(service, taken);
  await service.startWorker();
  expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
  const counts = {
    doubledChildren: (await deps.db.selectFrom('runs').select('id').execute()).length - CHILDREN - 1,
    lostResults: CHILDREN - resultsShown(service, 'test').filter((result) => result.includes('Found.')).length,
    orphans: (await childrenOf(deps.db)).filter(({ state }) => state !== 'delivered').length,
  };
  expect(counts).toEqual({ doubledChildren: 0, lostResults: 0, orphans: 0 });
  expect(await deps.db.selectFrom('sessions').select('id').execute()).toHaveLength(CHILDREN + 1);
});
