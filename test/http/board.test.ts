import type { Queue } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { listRuns } from '../../src/store/session/runs.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

type RunBody = Readonly<Record<string, unknown>>;

type BoardQueue = Readonly<{
  name: string;
  readOnlyMode: boolean;
  counts: Readonly<Record<string, number>>;
  jobs: readonly Readonly<{
    id: string;
    data: unknown;
    failedReason: string;
    stacktrace: readonly string[];
    returnValue: unknown;
  }>[];
}>;

const startService = (backend: 'redis' | 'postgres', readOnly: string, tools: readonly Tool[] = []) =>
  startTestService({ backend, tools, environment: { BATON_PORT: '0', BATON_ADMIN_READ_ONLY: readOnly } });

const retryJob = async (url: string, jobId: string): Promise<number> =>
  (await fetch(`${url}/admin/queues/api/queues/steps/${jobId}/retry`, { method: 'PUT' })).status;

const REFUSAL = { status: 401, body: { error: { message: 'the secret sk-12345 is wrong' } } } as const;

async function boardOf(url: string, status = 'failed'): Promise<readonly BoardQueue[]> {
  const query = `activeQueue=steps&status=${status}&page=1&jobsPerPage=10`;
  const response = await fetch(`${url}/admin/queues/api/queues?${query}`);
  expect(response.status).toBe(200);
  return ((await response.json()) as { queues: readonly BoardQueue[] }).queues;
}

/** A run that its provider refuses, and the job that is kept of it. */
async function failOnce(service: TestService, url: string) {
  service.simulator.fault('test', REFUSAL);
  service.simulator.script('test', [{ text: 'Done after all.' }]);
  await service.startWorker();
  const session = await service.createSession();
  const { runId } = await service.send(session, 'A confidential task');
  expect(await service.ended(runId)).toMatchObject({ status: 'failed' });
  return { session, runId, job: await failedJob(url) };
}

const failedJob = (url: string) =>
  eventually(async () => {
    const queue = (await boardOf(url)).find(({ name }) => name === 'steps');
    return queue?.jobs[0] ?? null;
  }, 'the failed job is on the board');

const jobsOnBoard = async (url: string, status: string) =>
  (await boardOf(url, status)).find(({ name }) => name === 'steps')?.jobs ?? [];

const eventTypes = async (url: string, runId: string): Promise<string[]> => {
  const { sessionId } = (await (await fetch(`${url}/v1/runs/${runId}`)).json()) as { sessionId: string };
  const headers = { accept: 'application/json' };
  const page = await (await fetch(`${url}/v1/sessions/${sessionId}/events?limit=200`, { headers })).json();
  return (page as { events: { type: string; runId: string }[] }).events.flatMap((event) =>
    event.runId === runId && event.type.startsWith('run:') ? [event.type] : [],
  );
};

describe.each(availableBackends())('the board of the queues on %s', (backend) => {
  it('shows the job of a failed run with its ids and what the provider said, and nothing of what was said to it', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const { session, runId, job } = await failOnce(service, api.url);
    const sessionId = formatId('session', session);
    const ids = { runId: formatId('run', runId), sessionId, agent: 'tester', tenant: 'default' };
    expect(job.data).toEqual({ ...ids, kind: 'step', no: 1, dispatch: 1 });
    expect(job.id).toBe(`${ids.runId}-step-1-1`);
    const host = new URL(service.simulator.url).host;
    const said = `${host} answered 401: the secret [removed] is wrong.`;
    expect([job.failedReason, job.stacktrace]).toEqual([`auth: The provider refused the API key. ${said}`, []]);
    expect(JSON.stringify(await boardOf(api.url))).not.toMatch(/sk-12345|confidential/);
  });

  it('keeps the job of a failed run also when it comes again: another worker may have dropped it before', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const { runId, job } = await failOnce(service, api.url);
    const [queue] = service.deps.jobs.bullQueues();
    await queue?.remove(job.id);
    await service.deps.jobs.add([{ runId, kind: 'step', no: 1, dispatch: 1 }]);
    const again = await failedJob(api.url);
    expect([again.id, again.failedReason]).toEqual([job.id, job.failedReason]);
  });

  it('shows for an hour what its jobs have done, and whose they were', async () => {
    const look: Tool = {
      name: 'look',
      description: 'Looks.',
      inputSchema: { type: 'object' },
      execute: async () => '',
    };
    await using service = await startService(backend, '', [look]);
    await using api = await startApi(service.deps);
    service.simulator.script('test', [{ toolCalls: [{ name: 'look', input: {} }] }, { text: 'Secretly done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'A confidential task');
    const run = await service.ended(runId);
    const done = await eventually(async () => {
      const jobs = await jobsOnBoard(api.url, 'completed');
      return jobs.length === 2 ? jobs : null;
    }, 'both jobs are on the board');
    const ids = { runId: formatId('run', runId), sessionId: formatId('session', session) };
    expect(done.map(({ data }) => data)).toEqual(
      [2, 1].map((no) => ({
        ...ids,
        agent: 'tester',
        tenant: 'default',
        kind: 'step',
        no,
        dispatch: expect.any(Number),
      })),
    );
    const [ms, tokens] = [expect.any(Number), expect.any(Number)];
    expect(done.map(({ returnValue }) => returnValue)).toEqual([
      { step: 2, tokens, ms, next: 'completed' },
      { step: 1, tokens, ms, next: 'step 2' },
    ]);
    const billed = done.reduce((sum, { returnValue }) => sum + Number(Object(returnValue).tokens), 0);
    expect(billed).toBe(run.input_tokens + run.output_tokens);
    expect(JSON.stringify(done)).not.toMatch(/onfidential|Secret/);
  });

  it('a failed job retried from Bull Board completes its run: what was done before stays done', async () => {
    let looks = 0;
    const execute = async () => `look ${++looks}`;
    const look: Tool = { name: 'look', description: 'Looks.', inputSchema: { type: 'object' }, execute };
    await using service = await startService(backend, 'false', [look]);
    await using api = await startApi(service.deps);
    service.simulator.fault('test', [{ kind: 'delay', delayMs: 0 }, REFUSAL]);
    service.simulator.script('test', [{ toolCalls: [{ name: 'look', input: {} }] }, { text: 'Done after all.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId: id } = await service.send(session, 'Look around', { deadlineMs: 600_000 });
    const before = await service.ended(id);
    expect(before).toMatchObject({ status: 'failed', error: { code: 'auth' } });
    const job = await failedJob(api.url);
    expect(await retryJob(api.url, job.id)).toBe(204);
    const runId = formatId('run', id);
    const run = await eventually(async () => {
      const now = (await (await fetch(`${api.url}/v1/runs/${runId}/wait?timeoutMs=20000`)).json()) as RunBody;
      return now['status'] === 'failed' ? null : now;
    }, 'the run has gone on');
    expect(run).toMatchObject({ id: runId, status: 'completed', error: null, steps: before.step_count + 1 });
    expect(new Date(String(run['deadlineAt'])).getTime()).toBeGreaterThan(before.deadline_at?.getTime() ?? 0);
    expect(await listRuns(service.deps.db, { tenantId: 'default', sessionId: session, limit: 10 })).toHaveLength(1);
    expect(looks).toBe(1);
    expect(await eventTypes(api.url, runId)).toEqual([
      ...['run:queued', 'run:started', 'run:failed'],
      ...['run:queued', 'run:completed'],
    ]);
    expect(service.logged).toContainEqual({ event: 'run_retried', runId: id, sessionId: session });
    await eventually(async () => (await retryJob(api.url, job.id)) === 404, 'the job is done and gone');
  });

  it('keeps the job of a run that fails again, and completes it with the next retry', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    service.simulator.fault('test', REFUSAL);
    const { runId, session, job } = await failOnce(service, api.url);
    expect(await retryJob(api.url, job.id)).toBe(204);
    const again = await eventually(async () => {
      const found = await failedJob(api.url);
      return found.id === job.id ? null : found;
    }, 'another job of the run has failed');
    expect(again.data).toMatchObject({ runId: formatId('run', runId), kind: 'step', no: 2 });
    expect(await retryJob(api.url, again.id)).toBe(204);
    await eventually(async () => {
      const runs = await listRuns(service.deps.db, { tenantId: 'default', sessionId: session, limit: 10 });
      return runs.length === 1 && runs[0]?.status === 'completed';
    }, 'the run is completed');
  });

  it('does nothing with a retry of a run whose session has moved on', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const { session, runId, job } = await failOnce(service, api.url);
    const next = await service.send(session, 'Never mind');
    await service.ended(next.runId);
    expect(await retryJob(api.url, job.id)).toBe(204);
    await eventually(
      async () => service.logged.some((entry) => entry.event === 'job_ignored' && entry.reason === 'moved_on'),
      'the retry is ignored',
    );
    const runs = await listRuns(service.deps.db, { tenantId: 'default', sessionId: session, limit: 10 });
    expect(runs.map(({ id }) => id)).toEqual([next.runId, runId]);
  });

  it('counts what waits in a paused queue, and refuses a bound of the queue, which would not bound the work', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const steps = `${api.url}/admin/queues/api/queues/steps`;
    expect((await fetch(`${steps}/pause`, { method: 'PUT' })).ok).toBe(true);
    await service.send(await service.createSession(), 'Wait');
    await eventually(
      async () => (await boardOf(api.url, 'waiting')).find(({ name }) => name === 'steps')?.counts['waiting'] === 1,
      'the board counts the job',
    );
    for (const bound of ['concurrency', 'rate-limit']) {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`${steps}/${bound}`, { method: 'PUT', headers, body: '{"concurrency":1}' });
      expect([bound, response.status]).toEqual([bound, 405]);
      expect(await response.json()).toMatchObject({ detail: expect.stringContaining('BATON_STEP_CONCURRENCY') });
    }
  });

  it('refuses every change while it is read-only, as it is by default', async () => {
    await using service = await startService(backend, '');
    await using api = await startApi(service.deps);
    const { job } = await failOnce(service, api.url);
    expect((await boardOf(api.url)).map(({ name, readOnlyMode }) => [name, readOnlyMode])).toEqual([
      ['steps', true],
      ['compactions', true],
      ['prunes', true],
      ['deliveries', true],
    ]);
    for (const [method, path] of [
      ['PUT', `steps/${job.id}/retry`],
      ['PUT', `steps/${job.id}/clean`],
      ['PUT', 'steps/pause'],
      ['PUT', 'pause'],
      ['POST', 'steps/add'],
    ] as const) {
      const response = await fetch(`${api.url}/admin/queues/api/queues/${path}`, { method });
      expect([path, response.status, response.headers.get('allow')]).toEqual([path, 405, 'GET, HEAD']);
      expect(await response.json()).toMatchObject({ code: 'method_not_allowed' });
    }
    const failed = await Promise.all(service.deps.jobs.bullQueues().map((queue: Queue) => queue.getFailedCount()));
    expect(failed).toEqual([1, 0, 0, 0]);
  });
});

describe('the page of the board', () => {
  it('comes with what its own scripts and styles need, and nothing else does', async () => {
    await using service = await startService('postgres', '');
    await using api = await startApi(service.deps);
    const page = await fetch(`${api.url}/admin/queues`);
    const html = await page.text();
    expect(page.status).toBe(200);
    expect(html).not.toMatch(/(?:src|href)="https?:/);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("default-src 'none'");
    const files = [...html.matchAll(/(?:src|href)="(static\/[^"]+)"/g)].map(([, file]) => file);
    expect(files.length).toBeGreaterThan(2);
    for (const file of files)
      expect([file, (await fetch(`${api.url}/admin/queues/${file}`)).status]).toEqual([file, 200]);
    // Every script is a file of its own: inline there is only data.
    const inline = [...html.matchAll(/<script(?![^>]*src=)([^>]*)>/g)].map(([, attributes]) => attributes);
    expect(inline.every((attributes) => attributes?.includes('type="application/json"'))).toBe(true);
    for (const path of ['/', '/v1/sessions', '/admin/elsewhere']) {
      const other = await fetch(api.url + path);
      expect([path, other.headers.get('content-security-policy')]).toEqual([
        path,
        expect.not.stringContaining('script-src'),
      ]);
    }
  });
});
