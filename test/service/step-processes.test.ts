import { expect, it } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

/** A worker's id names its process. */
const pidsOf = async ({ deps }: TestService): Promise<number[]> => {
  const workers = await deps.db.selectFrom('workers').select('id').execute();
  return workers.map(({ id }) => Number(/-(\d+)-\w{6}-\w{6}$/.exec(id)?.[1]));
};

const runs = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it('further processes take steps, show their metrics, are started again, and end with the first', async () => {
  await using service = await startTestService({ backend: 'postgres' });
  const environment = { ...service.environment, BATON_PROCESSES: '3', BATON_METRICS_PORT: '0' };
  await using first = await startWorkerProcess('steps', environment);
  const further = async (): Promise<number[]> => (await pidsOf(service)).filter((pid) => pid !== first.pid);
  await expect.poll(further).toHaveLength(2);

  const { monitorUrl } = first.logged.find(({ event }) => event === 'process_started') ?? {};
  const metrics = async (): Promise<string> => (await fetch(`${monitorUrl}/metrics`)).text();
  await expect.poll(metrics).toMatch(/^process_cpu_seconds_total\{process="2"\} \d/m);
  const text = await metrics();
  expect(text).toMatch(/^process_cpu_seconds_total\{process="3"\} \d/m);
  expect(text).toMatch(/^process_cpu_seconds_total \d/m);
  expect(text.match(/^# TYPE process_cpu_seconds_total /gm)).toHaveLength(1);

  const [killed = 0, other = 0] = await further();
  process.kill(killed, 'SIGKILL');
  await expect.poll(further).toEqual([other, expect.not.toSatisfy((pid) => pid === killed)]);
  expect(first.logged).toContainEqual(
    expect.objectContaining({
      event: 'step_process_ended',
      signal: 'SIGKILL',
      exitCode: null,
      retryInMs: expect.any(Number),
    }),
  );

  const pids = await further();
  await first.kill('SIGKILL');
  await expect.poll(() => pids.filter(runs)).toEqual([]);
});

it('end in order with the first, at the same time', async () => {
  await using service = await startTestService({ backend: 'postgres' });
  await using first = await startWorkerProcess('steps', { ...service.environment, BATON_PROCESSES: '2' });
  await expect.poll(() => pidsOf(service)).toHaveLength(2);
  const pids = await pidsOf(service);
  expect(await first.kill('SIGTERM')).toBe(0);
  expect(pids.filter(runs)).toEqual([]);
  expect(await pidsOf(service)).toEqual([]);
});
