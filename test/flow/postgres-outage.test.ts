import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it, vi } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { availableBackends, type Backend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const LEASE = { BATON_LEASE_DURATION_MS: '3000', BATON_HEARTBEAT_INTERVAL_MS: '300' };

/** Two outages of Postgres: its port refuses connections, or the network swallows everything. */
const OUTAGES = {
  refused: (proxy: TcpProxy) => proxy.refuse(),
  'black-holed': async (proxy: TcpProxy) => proxy.blackhole(),
} as const;
const KINDS = Object.keys(OUTAGES) as (keyof typeof OUTAGES)[];
const ALL_CASES = availableBackends().flatMap((backend) => KINDS.map((kind) => ({ backend, kind })));
/** Each kind of queue and each kind of outage once: a request fails on Postgres before it gets to a queue. */
const pairs = (...chosen: readonly number[]) =>
  ALL_CASES.length === KINDS.length ? ALL_CASES : ALL_CASES.filter((_each, index) => chosen.includes(index));

const eventsOf = ({ logged }: WorkerProcess, event: string) => logged.filter((entry) => entry['event'] === event);

/** Starts processes that reach Postgres through a proxy. The test itself reaches it directly. */
async function startBehindProxy(backend: Backend, names: readonly ('api' | 'steps')[], more = {}) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const environment = { ...LEASE, BATON_WORKSPACE_DIR: folder.path, BATON_PORT: '0', BATON_MODEL: 'simulated/test' };
  const service = stack.use(await startTestService({ backend, environment }));
  const proxy = stack.use(await startTcpProxy(service.deps.databaseUrl));
  const behind = { ...service.environment, ...more, DATABASE_URL: proxy.via(service.deps.databaseUrl) };
  const starting = names.map(async (name) => stack.use(await startWorkerProcess(name, behind)));
  const processes = await Promise.all(starting);
  const owned = stack.move();
  return { service, folder, proxy, processes, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Waits until the leases of the runs are over and their workers have failed several times to renew them. */
async function untilLeasesAreLongOver({ deps }: TestService, processes: readonly WorkerProcess[]) {
  const failures = () => processes.map((worker) => eventsOf(worker, 'heartbeat_failed').length);
  await eventually(async () => {
    const { rows } = await sql<{ over: boolean }>`
      select bool_and(lease_expires_at < clock_timestamp() - interval '1 second') as over from runs where claim_id is not null`.execute(
      deps.db,
    );
    // A failure that repeats is logged once a minute: three intervals after the end of the leases others have failed, too.
    return Math.max(...failures()) >= 1 && rows[0]?.over === true;
  }, 'the leases are over and heartbeats have failed');
}

/** Waits for three more intervals of heartbeats by the clock of Postgres: their failures are logged once a minute. */
async function untilHeartbeatsWereDue({ deps }: TestService) {
  const { rows: began } = await sql<{ at: string }>`select clock_timestamp()::text as at`.execute(deps.db);
  await eventually(async () => {
    const { rows } = await sql<{ due: boolean }>`
      select clock_timestamp() > ${began[0]?.at}::timestamptz + interval '1 second' as due`.execute(deps.db);
    return rows[0]?.due === true;
  }, 'heartbeats were due');
}

/** The tests start processes and wait for several leases to pass. */
vi.setConfig({ testTimeout: 150_000 });

describe.each(pairs(1, 2))('with queues on $backend, a Postgres that is $kind for longer than the lease', (outage) => {
  it('costs nothing, neither in mid-stream nor between a tool and its result, and no tool starts meanwhile', async () => {
    await using system = await startBehindProxy(outage.backend, ['steps', 'steps']);
    const { service, proxy, processes, folder } = system;
    const { simulator, deps } = service;
    simulator.script('test', [
      { text: 'This answer has many chunks.', chunkChars: 4, gates: { afterChunks: { count: 3, gate: 'middle' } } },
    ]);
    const command = 'echo begun >> ledger; until [ -e go ]; do sleep 0.05; done; echo done >> ledger';
    const calls = [command, 'echo second >> ledger'].map((text) => ({ name: 'bash', input: { command: text } }));
    simulator.script('tools', [{ toolCalls: calls }, { text: 'Both have run.' }]);
    const ledger = () => readFile(path.join(folder.path, 'ledger'), 'utf8').catch(() => '');
    const talking = await service.createSession({ tools: [] });
    const acting = await service.createSession({
      model: 'simulated/tools',
      tools: ['workspace'],
      limits: { toolConcurrency: 1 },
    });
    const sent = [await service.send(talking, 'Go'), await service.send(acting, 'Go')];
    await simulator.gate('middle').reached;
    await eventually(async () => (await ledger()) === 'begun\n', 'the first tool runs');

    await OUTAGES[outage.kind](proxy);
    await untilLeasesAreLongOver(service, processes);
    simulator.gate('middle').release();
    await writeFile(path.join(folder.path, 'go'), '');
    await simulator.waitForRequest(({ outcome }) => outcome === 'completed');
    await eventually(async () => (await ledger()) === 'begun\ndone\n', 'the first tool is done');
    await untilHeartbeatsWereDue(service);
    expect(await ledger()).toBe('begun\ndone\n');

    await proxy.restore();
    for (const { runId } of sent) expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const burned = deps.db.selectFrom('runs').select(['resume_count', 'attempt']);
    expect(await burned.execute()).toEqual(sent.map(() => ({ resume_count: 0, attempt: 1 })));
    expect(processes.flatMap((worker) => eventsOf(worker, 'run_recovered'))).toEqual([]);
    expect(await ledger()).toBe('begun\ndone\nsecond\n');
    expect(simulator.requests.length).toBe(3);
    expect(simulator.requests.flatMap((request) => request.violations)).toEqual([]);
    for (const worker of processes) expect(await worker.kill('SIGTERM')).toBe(0);
  });

  it('keeps no process from ending that is told to; what it had in hand goes on elsewhere afterwards', async () => {
    await using system = await startBehindProxy(outage.backend, ['steps'], { BATON_SHUTDOWN_GRACE_MS: '500' });
    const { service, proxy, processes } = system;
    service.simulator.script('test', ({ index }) =>
      index === 0
        ? { text: 'Never heard to its end.', chunkChars: 4, gates: { afterChunks: { count: 3, gate: 'middle' } } }
        : { text: 'Answered.' },
    );
    const session = await service.createSession({ tools: [] });
    const { runId } = await service.send(session, 'Go');
    await service.simulator.gate('middle').reached;
    await OUTAGES[outage.kind](proxy);
    // A Postgres that does not answer at all keeps each part of the process waiting in turn: the process ends without
    // them.
    const isCutShort = outage.kind === 'black-holed';
    for (const worker of processes) {
      expect(await worker.kill('SIGTERM')).toBe(isCutShort ? 1 : 0);
      const cuts = () => eventsOf(worker, 'process_cut_short');
      await eventually(async () => cuts().length === (isCutShort ? 1 : 0), 'the process has said how it ended');
    }
    await proxy.restore();
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
    expect(messages.at(-1)?.parts.at(-1)).toMatchObject({ type: 'text', text: 'Answered.' });
  });
});

/** Reads events until a run has ended, and calls `joined` at the snapshot. Returns the numbers of the durable ones. */
async function follow(url: string, joined: () => void): Promise<number[]> {
  const seqs: number[] = [];
  let rest = '';
  const response = await fetch(url);
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const frames = (rest + chunk).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const { type, seq } = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '{}');
      if (type === 'session:snapshot') joined();
      if (/^id: /m.test(frame)) seqs.push(seq);
      if (type === 'run:completed') return seqs;
    }
  }
  throw new Error('the stream ended before the run');
}

describe.each(pairs(0, 3))('with queues on $backend, the API of a Postgres that is $kind', (outage) => {
  it('says so: it lives and is not ready, requests get 503, a reader goes on where it was', async () => {
    await using system = await startBehindProxy(outage.backend, ['api', 'steps']);
    const { service, proxy, processes } = system;
    const base = processes[0]?.url ?? '';
    service.simulator.script('test', [{ text: 'Here.' }]);
    const post = (route: string, body: object) =>
      fetch(`${base}${route}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const created = await post('/v1/sessions', { agent: 'workspace' });
    const { id } = (await created.json()) as { id: string };
    const joined = Promise.withResolvers<void>();
    const reader = follow(`${base}/v1/sessions/${id}/events?after=0`, joined.resolve);
    await Promise.race([joined.promise, reader]);

    await OUTAGES[outage.kind](proxy);
    const notReady = await eventually(async () => {
      const response = await fetch(`${base}/readyz`);
      return response.status === 503 ? response : null;
    }, 'the API is not ready');
    expect(await notReady.json()).toMatchObject({ ready: false, checks: { postgres: { ok: false } } });
    expect((await fetch(`${base}/livez`)).status).toBe(200);
    const refused = await Promise.all([
      post(`/v1/sessions/${id}/messages`, { content: 'Go' }),
      fetch(`${base}/v1/sessions/${id}`),
      fetch(`${base}/v1/sessions/${id}/events`),
    ]);
    for (const response of refused) {
      expect(response.status).toBe(503);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      expect(response.headers.get('retry-after')).toBe('1');
      expect(await response.json()).toMatchObject({ code: 'store_unavailable' });
    }

    await proxy.restore();
    await eventually(async () => (await fetch(`${base}/readyz`)).status === 200, 'the API is ready');
    expect((await post(`/v1/sessions/${id}/messages`, { content: 'Go' })).status).toBe(202);
    const seqs = await reader;
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    for (const worker of processes) expect(await worker.kill('SIGTERM')).toBe(0);
  });
});
