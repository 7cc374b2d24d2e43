import type { Queue } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/runtime/api-server.ts';
import { listRuns } from '../../src/store/runs.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

type BoardQueue = Readonly<{
  name: string;
  readOnlyMode: boolean;
  counts: Readonly<Record<string, number>>;
  jobs: readonly Readonly<{ id: string; data: unknown; failedReason: string; stacktrace: readonly string[] }>[];
}>;

const startService = (backend: 'redis' | 'postgres', readOnly: string): Promise<TestService> =>
  startTestService({ backend, environment: { BATON_PORT: '0', BATON_ADMIN_READ_ONLY: readOnly } });

async function boardOf(url: string): Promise<readonly BoardQueue[]> {
  const response = await fetch(`${url}/admin/queues/api/queues?activeQueue=steps&status=failed&page=1&jobsPerPage=10`);
  expect(response.status).toBe(200);
  return ((await response.json()) as { queues: readonly BoardQueue[] }).queues;
}

/** A run that its provider refuses, and the job that is kept of it. */
async function failOnce(service: TestService, url: string) {
  service.simulator.fault('test', { status: 401, body: { error: { message: 'the secret sk-12345 is wrong' } } });
  service.simulator.script('test', [{ text: 'Done after all.' }]);
  await service.startWorker();
  const session = await service.createSession();
  const { runId } = await service.send(session, 'A confidential task');
  expect(await service.ended(runId)).toMatchObject({ status: 'failed' });
  const job = await eventually(async () => {
    const queue = (await boardOf(url)).find(({ name }) => name === 'steps');
    return queue?.jobs[0] ?? null;
  }, 'the failed job is on the board');
  return { session, runId, job };
}

describe.each(availableBackends())('the board of the queues on %s', (backend) => {
  it('shows the job of a failed run with its ids and the code of its error; a retry goes on with the session, once', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const { session, runId, job } = await failOnce(service, api.url);
    expect(job.data).toEqual({ runId, kind: 'step', no: 1, dispatch: 1 });
    expect([job.failedReason, job.stacktrace]).toEqual(['auth', []]);
    expect(JSON.stringify(await boardOf(api.url))).not.toMatch(/sk-12345|confidential/);
    const retry = () => fetch(`${api.url}/admin/queues/api/queues/steps/${job.id}/retry`, { method: 'PUT' });
    expect((await retry()).status).toBe(204);
    const runs = await eventually(async () => {
      const all = await listRuns(service.deps.db, { tenantId: 'default', sessionId: session, limit: 10 });
      return all.some(({ status }) => status === 'completed') ? all : null;
    }, 'the session has gone on');
    expect(runs.map(({ status }) => status)).toEqual(['completed', 'failed']);
    expect(service.logged).toContainEqual(expect.objectContaining({ event: 'run_retried', runId }));
    await eventually(async () => (await retry()).status === 404, 'the job is done and gone');
  });

  it('does nothing with a retry of a run whose session has moved on', async () => {
    await using service = await startService(backend, 'false');
    await using api = await startApi(service.deps);
    const { session, runId, job } = await failOnce(service, api.url);
    const next = await service.send(session, 'Never mind');
    await service.ended(next.runId);
    expect((await fetch(`${api.url}/admin/queues/api/queues/steps/${job.id}/retry`, { method: 'PUT' })).status).toBe(
      204,
    );
    await eventually(
      async () => service.logged.some((entry) => entry.event === 'job_ignored' && entry.reason === 'moved_on'),
      'the retry is ignored',
    );
    const runs = await listRuns(service.deps.db, { tenantId: 'default', sessionId: session, limit: 10 });
    expect(runs.map(({ id }) => id)).toEqual([next.runId, runId]);
  });

  it('refuses every change while it is read-only, as it is by default', async () => {
    await using service = await startService(backend, '');
    await using api = await startApi(service.deps);
    const { job } = await failOnce(service, api.url);
    expect((await boardOf(api.url)).map(({ name, readOnlyMode }) => [name, readOnlyMode])).toEqual([
      ['steps', true],
      ['compactions', true],
      ['prunes', true],
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
    expect(failed).toEqual([1, 0, 0]);
  });
});

describe('the page of the board', () => {
  it('comes with what its own scripts and styles need, and no other page does', async () => {
    await using service = await startService('postgres', '');
    await using api = await startApi(service.deps);
    const page = await fetch(`${api.url}/admin/queues`);
    const html = await page.text();
    expect(page.status).toBe(200);
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
    for (const path of ['/docs', '/v1/sessions', '/admin/elsewhere']) {
      const other = await fetch(api.url + path);
      expect([path, other.headers.get('content-security-policy')]).toEqual([
        path,
        expect.not.stringContaining('script-src'),
      ]);
    }
  });
});
