import fc from 'fast-check';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { createViewCache, type ViewCache } from '../../src/claims/view-cache.ts';
import { jobPayloadSchema } from '../../src/domain/run/job.ts';
import type { PendingKind } from '../../src/domain/run/run.ts';
import type { ViewMessage } from '../../src/domain/transcript/message.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { switchAgent } from '../../src/store/changes/switch-agent.ts';
import { readContext } from '../../src/store/session/context.ts';
import { type ClaimedRun, claimRun, handBackRun, restartStep } from '../../src/store/work/claims.ts';
import { beginCompaction, type NewMark } from '../../src/store/work/maintenance.ts';
import { appendChunks } from '../../src/store/work/step-writes.ts';
import { answerStep, type Claimed } from '../http/play-worker.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { finishCleanUp, goOn, openRace, type Race } from './race.ts';

/** One session, two workers that remember views of it, and the claims that they were given. */
type Play = {
  race: Race;
  caches: readonly [ViewCache, ViewCache];
  /** The claim that holds the run, with the view that its worker was shown. */
  current: Held | null;
  /** Claims that were lost, the last one first. */
  lost: Held[];
  /** Number of claims whose view was put together from a remembered one. */
  shared: number;
};

type Held = Readonly<{ claimed: Claimed; view: readonly ViewMessage[]; cache: ViewCache }>;

/** The worker that acts, and the number that picks its target. */
type Choice = Readonly<{ worker: 0 | 1; pick: number }>;

type Act = (play: Play, choice: Choice) => Promise<unknown>;

async function pendingJob({ race }: Play) {
  if ((await race.session()).active_run_id === null) await race.send('Go');
  const { active_run_id: runId } = await race.session();
  const { rows } = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(race.db);
  return jobPayloadSchema.parse(rows[0]?.job);
}

/**
 * Takes the run up as a worker does, unless it is held already. Checks that the view is the same as for a worker that
 * remembers nothing.
 */
async function takeUp(play: Play, { worker }: Choice): Promise<Held> {
  if (play.current !== null) return play.current;
  const { db, sessionId } = play.race;
  const cache = play.caches[worker];
  const job = await pendingJob(play);
  const ids = { claimId: newId(), messageId: newId() };
  const known = cache.of(job.runId);
  const claim = await claimRun(db, { job, ...ids, workerId: `w${worker}`, leaseDurationMs: 30_000, known });
  if (claim.outcome !== 'claimed') throw new Error(`the job was not claimed: ${claim.outcome}`);
  const fence = { runId: job.runId, epoch: claim.epoch, claimId: ids.claimId };
  const { view, viewVersion: version, messageSeq: seq } = claim;
  if (view !== null && seq !== null) {
    cache.keep(job.runId, sessionId, { version, next: { messageId: ids.messageId, seq }, messages: view });
  }
  if (known?.messages[0] !== undefined && view?.[0] === known.messages[0]) play.shared++;
  const shown = view ?? (await settle(play, claim, { fence, messageId: ids.messageId }));
  expect(shown).toEqual((await readContext(db, 'default', sessionId)).view);
  const claimed = { fence, run: claim.run, job, messageId: ids.messageId };
  play.current = { claimed, view: shown, cache };
  return play.current;
}

/** Drops the answer that a lost worker has begun, and begins the step anew. */
async function settle(
  { race: { db } }: Play,
  { interruptedMessageId }: ClaimedRun,
  { fence, messageId }: Pick<Claimed, 'fence' | 'messageId'>,
): Promise<readonly ViewMessage[]> {
  const broken = interruptedMessageId === null ? null : { messageId: interruptedMessageId, events: [] };
  const view = (await restartStep(db, fence, messageId, broken))?.view ?? null;
  if (view === null) throw new Error('the step was not begun');
  return view;
}

/** Ends the job at work: a step with `end`, a compaction with a summary, a prune with marks. */
const ends =
  (end: (play: Play, held: Held, choice: Choice) => Promise<unknown>): Act =>
  async (play, choice) => {
    const held = await takeUp(play, choice);
    const { kind } = held.claimed.job;
    await (kind === 'step' ? end : kind === 'prune' ? prune : compact)(play, held, choice);
    play.current = null;
  };

async function prune({ race }: Play, { claimed, view }: Held, { pick }: Choice): Promise<void> {
  const { id: messageId, role } = view[pick % view.length] ?? {};
  const marks: Omit<NewMark, 'messageId'>[] = [
    { index: 0, viewLimitChars: 1 + (pick % 3) },
    ...(role === 'assistant' ? [{ index: 1, pruned: true as const, originalTokens: 9 }] : []),
  ];
  await finishCleanUp(
    race.db,
    claimed,
    undefined,
    marks.flatMap((mark) => (messageId === undefined ? [] : [{ messageId, ...mark }])),
  );
}

async function compact({ race }: Play, { claimed, view }: Held, { pick }: Choice): Promise<void> {
  const id = newId();
  const round = {
    strategy: 'reactive-overflow',
    reason: 'threshold',
    fromSeq: 1,
    uptoSeq: 1,
    tokensBefore: 9,
    modelLimit: 9,
  } as const;
  await beginCompaction(race.db, claimed.fence, { id, ...round });
  const summary = { messageId: newId(), model: null, parts: [{ type: 'text', text: `Summary ${pick}.` }] } as const;
  const end = { id, state: 'completed', attempts: 1, costUsd: 0, usage: NO_USAGE, tokensAfter: 1 } as const;
  const kept = view.filter(({ parts: [part] }) => part?.type !== 'text' || !part.text.startsWith('Summary'));
  const viewStartSeq = kept[pick % kept.length]?.seq ?? 1;
  await finishCleanUp(race.db, claimed, { ...end, summary, viewStartSeq });
}

const goesOn = (before?: Exclude<PendingKind, 'step'>) =>
  ends(({ race }, { claimed }, { pick }) =>
    goOn(race.db, claimed, before, [
      { type: 'text', text: `I go on, ${pick}.` },
      {
        type: 'tool',
        toolCallId: 'call',
        toolName: 'look',
        input: { pick },
        state: 'completed',
        output: { type: 'text', value: `${pick}` },
      },
    ]),
  );

/**
 * A worker that has lost its claim and does not know it yet: its writes are refused, and its memory stays as it was.
 */
const late: Act = async ({ race: { db }, lost }, { pick }) => {
  const held = lost[pick % Math.max(1, lost.length)];
  if (held === undefined) return;
  const { fence, messageId } = held.claimed;
  const chunks = [{ charOffset: 0, partIndex: 0, type: 'text', text: 'late' }] as const;
  expect(await appendChunks(db, [{ fence, messageId, chunks }])).toEqual([false]);
  await expect(goOn(db, held.claimed)).rejects.toThrow('fenced');
};

const asks =
  (kind: Exclude<PendingKind, 'step'>): Act =>
  async ({ race }) =>
    requestMaintenance(race.db, { ...race.ref, kind, runId: newId() });

const agentOf = (no: number) => ({
  name: 'tester',
  version: `${no}`,
  snapshot: { model: `test/${no}` },
  overrides: {},
});

const ACTS: Readonly<Record<string, Act>> = {
  send: ({ race }, { pick }) => race.send(`And ${pick}?`),
  'take up': takeUp,
  'go on': goesOn(),
  'go on after a prune': goesOn('prune'),
  'go on after a compaction': goesOn('compaction'),
  answer: ends(async ({ race }, { claimed, cache }) => {
    const { jobs } = await answerStep(race.db, claimed, 'Done.');
    // As a worker does at the end of a run.
    if (jobs[0]?.runId !== claimed.fence.runId) cache.forget(claimed.fence.runId);
  }),
  lose: async (play, choice) => {
    const held = await takeUp(play, choice);
    await handBackRun(play.race.db, held.claimed.fence);
    play.lost.unshift(held);
    play.current = null;
  },
  'write late': late,
  'ask for a prune': asks('prune'),
  'ask for a compaction': asks('compaction'),
  'change the agent': ({ race }, { pick }) =>
    race.db.transaction().execute((tx) => switchAgent(tx, race.ref, () => agentOf(pick))),
};

/** Workers remember nothing of a run unless it goes on now and then. */
const OFTEN = Array.from({ length: Object.keys(ACTS).length / 2 }, () => 'go on');

const step = fc.record({
  act: fc.constantFrom(...Object.keys(ACTS), ...OFTEN),
  worker: fc.constantFrom(0 as const, 1 as const),
  pick: fc.nat(20),
});

it('two workers who take turns are shown what one is shown who knows nothing', async () => {
  await using database = await createTestDatabase();
  let shared = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40, size: 'max' }), async (steps) => {
      const race = await openRace(database.db);
      const play: Play = { race, caches: [createViewCache(), createViewCache()], current: null, lost: [], shared: 0 };
      for (const { act, ...choice } of steps) await ACTS[act]?.(play, choice);
      await takeUp(play, { worker: 0, pick: 0 });
      shared += play.shared;
    }),
    { numRuns: propertyRuns(0.5) },
  );
  // Views were put together from remembered ones: without that the test would have tried nothing.
  expect(shared).toBeGreaterThan(40);
});
