import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { type ClaimKeeper, createClaimKeeper, type HeldClaim } from '../../src/claims/claim-keeper.ts';
import { createViewCache } from '../../src/claims/view-cache.ts';
import { runPrune } from '../../src/compaction/prune/run-prune.ts';
import { NEW_CONTEXT_STATE } from '../../src/domain/context/meter/state.ts';
import { planAfterMaintenance } from '../../src/domain/run/after-maintenance.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import { finishMaintenance } from '../../src/store/work/maintenance.ts';
import { agentWith, eventsOf, readingReplies, readTool, requestsOf } from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** Of 16k usable tokens a prune starts at 8k, protects 4k, and has to free 1.6k. */
const SMALL = { maxContextTokens: 16_000 };
const PLACEHOLDER = /^\[Old tool result content cleared; read_tool_output id: out_\d+_\d+\]$/;

type StoredCall = { path: string; output: string; pruned: boolean };

/** The calls of the session as they are stored. */
async function callsOf(service: TestService, sessionId: string): Promise<StoredCall[]> {
  const { rows } = await sql<StoredCall>`
    select p.content #>> '{input,path}' as path, p.content #>> '{output,value}' as output,
      p.compacted_at is not null as pruned
    from parts p join messages m on m.session_id = p.session_id and m.id = p.message_id
    where p.session_id = ${sessionId} and p.type = 'tool' order by m.seq, p.idx`.execute(service.deps.db);
  return rows;
}

/** A session with this many outputs of 1,500 tokens, none of them pruned yet. */
async function readSession(service: TestService, count = 5): Promise<string> {
  const session = await service.createSession(agentWith({ ...SMALL, prune: { enabled: false } }));
  const { runId } = await service.send(session, 'Read all the files.');
  expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: count + 1 });
  expect((await callsOf(service, session)).filter(({ pruned }) => pruned)).toEqual([]);
  return session;
}

async function request(service: TestService, sessionId: string) {
  const { db, newId } = service.deps;
  const asked = await requestMaintenance(db, { tenantId: 'default', sessionId, kind: 'prune', runId: newId() });
  if (asked.job === null) throw new Error('a run was active');
  return { runId: asked.runId, job: asked.job };
}

const runOf = ({ deps }: TestService, runId: string) =>
  deps.db
    .selectFrom('runs')
    .select(['status', 'claim_id', 'resume_count'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
const typesOf = async (service: TestService, session: string): Promise<string[]> =>
  (await eventsOf(service, session)).map(({ type }) => type);

/** Claims the run like a worker that dies right afterwards. */
async function claimAndDie(service: TestService, job: JobPayload) {
  const { db, newId } = service.deps;
  const claimId = newId();
  const claim = await claimRun(db, { job, claimId, workerId: 'dead', leaseDurationMs: 1, messageId: newId() });
  if (claim.outcome !== 'claimed') throw new Error(claim.outcome);
  return { runId: job.runId, epoch: claim.epoch, claimId };
}

const nothingTo = (service: TestService, runId: string) => ({
  contextState: NEW_CONTEXT_STATE,
  usage: NO_USAGE,
  costUsd: 0,
  events: [],
  next: planAfterMaintenance({
    runId,
    runKind: 'maintenance',
    stepNo: 1,
    goesOnWith: 'step',
  }),
  nextRunId: service.deps.newId(),
});

/** Runs a prune job. It holds its claim and stops in the middle until `meanwhile` is done. */
async function runPruneWhile(
  service: TestService,
  job: JobPayload,
  meanwhile: (held: HeldClaim, claims: ClaimKeeper) => Promise<void>,
): Promise<void> {
  const { deps } = service;
  await using claims = await createClaimKeeper({ db: deps.db, bus: deps.bus, log: deps.log });
  const holding = Promise.withResolvers<HeldClaim>();
  const hold: ClaimKeeper['hold'] = (runId, claimId) => {
    const held = claims.hold(runId, claimId);
    holding.resolve(held);
    return held;
  };
  const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The job asks for the agent's tools before it decides anything, and MCP servers may take their time.
  const toolsOf: typeof deps.toolsOf = async (agent) => {
    asked.resolve();
    await gate.promise;
    return deps.toolsOf(agent);
  };
  const gated = { ...deps, toolsOf, claims: { ...claims, hold }, views: createViewCache() };
  const running = runPrune(gated, job, new AbortController().signal);
  await asked.promise;
  await meanwhile(await holding.promise, claims);
  gate.resolve();
  await running;
}

describe.each(availableBackends())('a prune on %s', (backend) => {
  it.each(['simulated', 'simulated-anthropic'])(
    'takes old outputs out of the view of a long run and keeps them in the transcript (%s)',
    async (provider) => {
      await using service = await startTestService({ backend, tools: [readTool] });
      service.simulator.script('test', readingReplies(20, 1_000));
      await service.startWorker();
      const session = await service.createSession(agentWith(SMALL, { model: `${provider}/test` }));
      const run = await service.ended((await service.send(session, 'Read all the files.')).runId);
      expect(run).toMatchObject({ status: 'completed', step_count: 21 });

      const pruned = await eventsOf(service, session, 'context:pruned');
      const prunes = await eventsOf(service, session, 'prune:complete');
      expect(pruned.length).toBeGreaterThan(0);
      expect(prunes.map(({ data }) => data)).toEqual(pruned.map(({ data }) => ({ ...data, prunedTools: ['read'] })));
      for (const { data } of pruned) expect(data['savedTokens']).toBeGreaterThanOrEqual(1_600);
      expect(await typesOf(service, session)).not.toContain('compaction:start');

      const calls = await callsOf(service, session);
      expect(calls.filter((call) => call.pruned).length).toBe(
        pruned.reduce((sum, { data }) => sum + Number(data['prunedCount']), 0),
      );
      for (const { path, output } of calls) expect(output).toMatch(new RegExp(`^contents of ${path}: (\\w+ ){50}`));

      const { steps, violations } = requestsOf(service);
      expect(violations).toEqual([]);
      const shown = steps.at(-1)?.request?.messages.flatMap(({ toolResults }) => toolResults) ?? [];
      // A prune comes before a request that is cold anyway (claude-code#94177).
      // The prune after the last request is for the next one.
      const before = pruned.filter(({ runId }) => runId === pruned[0]?.runId);
      const cleared = shown.map(({ output }) => PLACEHOLDER.test(output));
      expect(cleared.filter(Boolean).length).toBe(
        before.reduce((sum, { data }) => sum + Number(data['prunedCount']), 0),
      );
      expect(cleared).toEqual(cleared.toSorted((a, b) => Number(b) - Number(a)));
      // Field bug: opencode#32515, a cached prefix of 219k tokens was lost.
      // Each prune breaks the cached prefix once, and nothing else does.
      expect(steps.filter(({ extendsPrefix }) => !extendsPrefix).length).toBeLessThanOrEqual(before.length);
    },
  );

  it('of an idle session is a run of its own: no model is asked, and the next request shows it', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(5, 1_500));
    await service.startWorker();
    const session = await readSession(service);
    const asked = service.simulator.requests.length;
    const { runId, job } = await request(service, session);
    await service.deps.jobs.add([job]);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', kind: 'maintenance', step_count: 0 });
    expect(service.simulator.requests.length).toBe(asked);
    expect((await typesOf(service, session)).slice(-5)).toEqual([
      'run:queued',
      'run:started',
      'context:pruned',
      'prune:complete',
      'run:completed',
    ]);
    const next = await service.ended((await service.send(session, 'And now?')).runId);
    expect(next).toMatchObject({ status: 'completed', step_count: 1 });
    const results =
      requestsOf(service)
        .steps.at(-1)
        ?.request?.messages.flatMap(({ toolResults }) => toolResults) ?? [];
    expect(results.filter(({ output }) => PLACEHOLDER.test(output)).length).toBeGreaterThan(0);
    expect(requestsOf(service).violations).toEqual([]);
    // The id in the placeholder is the call's number in the transcript, which still has the whole output.
    const calls = await callsOf(service, session);
    expect(calls.every(({ output }) => output.length > 1_000)).toBe(true);
  });

  it('keeps nobody waiting: a message that comes meanwhile gets its run afterwards', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(5, 1_500));
    const worker = await service.startWorker();
    const session = await readSession(service);
    await worker[Symbol.asyncDispose]();
    const { runId } = await request(service, session);
    const sent = await service.send(session, 'And now?');
    expect(sent).toMatchObject({ job: null, queued: true, position: 1, status: 'queued' });
    expect(sent.runId).not.toBe(runId);
    await service.startWorker();
    expect(await service.ended(sent.runId)).toMatchObject({ status: 'completed', kind: 'task' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', kind: 'maintenance' });
    expect(requestsOf(service).steps.at(-1)?.request?.messages.at(-1)?.text).toBe('And now?');
  });

  it('that its worker did not live to finish is done once, and a late finish or a second delivery do nothing', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(5, 1_500));
    const worker = await service.startWorker();
    const session = await readSession(service);
    await worker[Symbol.asyncDispose]();
    const { runId, job } = await request(service, session);
    const fence = await claimAndDie(service, job);
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const calls = await callsOf(service, session);
    const events = await eventsOf(service, session);
    expect(events.filter(({ type }) => type === 'prune:complete')).toHaveLength(1);

    const messageId = service.deps.newId();
    const marks = [{ messageId, index: 0, pruned: true as const }];
    expect(await finishMaintenance(service.deps.db, fence, { ...nothingTo(service, runId), marks })).toBeNull();
    await using claims = await createClaimKeeper({ ...service.deps });
    expect(
      await runPrune({ ...service.deps, claims, views: createViewCache() }, job, new AbortController().signal),
    ).toEqual({ outcome: 'done' });
    expect(await callsOf(service, session)).toEqual(calls);
    expect(await eventsOf(service, session)).toEqual(events);
  });

  it('that finds nothing to do ends all the same', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(1, 50));
    await service.startWorker();
    const session = await readSession(service, 1);
    const { runId, job } = await request(service, session);
    await service.deps.jobs.add([job]);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect((await eventsOf(service, session, 'prune:complete')).map(({ data }) => data)).toEqual([
      { prunedCount: 0, savedTokens: 0, prunedTools: [] },
    ]);
    expect(await typesOf(service, session)).not.toContain('context:pruned');
  });

  it('that is cancelled before or while it runs marks nothing', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(5, 1_500));
    const worker = await service.startWorker();
    const session = await readSession(service);
    await worker[Symbol.asyncDispose]();
    const { db, bus } = service.deps;

    const early = await request(service, session);
    await claimAndDie(service, early.job);
    await requestCancel(db, 'default', early.runId);
    const second = await service.startWorker();
    expect(await service.ended(early.runId)).toMatchObject({ status: 'cancelled' });
    await second[Symbol.asyncDispose]();

    const late = await request(service, session);
    await runPruneWhile(service, late.job, async (held) => {
      expect(await requestCancel(db, 'default', late.runId)).toMatchObject({ status: 'cancelling', notify: true });
      bus.requestCancel(late.runId);
      await eventually(async () => held.stopped() === 'cancelled', 'the job hears of it');
    });
    expect(await runOf(service, late.runId)).toMatchObject({ status: 'cancelled' });
    expect((await callsOf(service, session)).filter(({ pruned }) => pruned)).toEqual([]);
    expect(await typesOf(service, session)).not.toContain('prune:complete');
    expect((await eventsOf(service, session, 'run:cancelled')).map(({ data }) => data['stillRan'])).toEqual([[], []]);
  });

  it('that a shutdown stops commits nothing and goes to the next worker', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(5, 1_500));
    const worker = await service.startWorker();
    const session = await readSession(service);
    await worker[Symbol.asyncDispose]();
    const { runId, job } = await request(service, session);
    await runPruneWhile(service, job, async (_held, claims) => claims.stopAll('shutdown'));
    expect(await runOf(service, runId)).toMatchObject({ status: 'queued', claim_id: null, resume_count: 0 });
    expect(await typesOf(service, session)).not.toContain('prune:complete');
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(await eventsOf(service, session, 'prune:complete')).toHaveLength(1);
  });
});
