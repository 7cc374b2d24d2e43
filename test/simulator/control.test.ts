import { expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { runStep } from './client.ts';

async function command(url: string, name: string, body: unknown): Promise<number> {
  const response = await fetch(`${url}/__simulator/${name}`, { method: 'POST', body: JSON.stringify(body) });
  await response.text();
  return response.status;
}

test('another process can script replies, queue faults, release gates and read the log', async () => {
  await using simulator = await startSimulator();
  const { url } = simulator;
  const replies = [
    { text: 'held', gates: { beforeEnd: 'g' } },
    { toolCalls: [{ name: 'look', input: { path: 'p' } }] },
  ];
  expect(await command(url, 'script', { model: 'm', replies })).toBe(200);
  expect(await command(url, 'faults', { model: 'm', faults: [{ kind: 'overloaded' }] })).toBe(200);
  expect((await runStep(url, 'chat')).error).toMatchObject({ statusCode: 503 });

  const held = runStep(url, 'chat');
  await simulator.gate('g').reached;
  const gates = await (await fetch(`${url}/__simulator/gates`)).json();
  expect(gates).toEqual({ gates: [{ name: 'g', reached: true, released: false }] });
  expect(await command(url, 'release', { gate: 'g' })).toBe(200);
  expect((await held).text).toBe('held');
  expect((await runStep(url, 'chat')).calls).toHaveLength(1);

  expect(await command(url, 'window', { model: 'm', tokens: 5 })).toBe(200);
  expect((await runStep(url, 'chat')).error).toMatchObject({ statusCode: 400 });
  const log = await (await fetch(`${url}/__simulator/requests?after=0`)).json();
  expect(log).toMatchObject({ requests: [{ no: 1, outcome: 'completed' }, { no: 2 }, { no: 3, outcome: 'refused' }] });

  expect(await command(url, 'clear', {})).toBe(200);
  expect(simulator.requests).toHaveLength(0);
});

test('commands that are wrong are refused with the field at fault', async () => {
  await using simulator = await startSimulator();
  const response = await fetch(`${simulator.url}/__simulator/faults`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', faults: [{ kind: 'earthquake' }] }),
  });
  expect(response.status).toBe(400);
  expect(await response.text()).toContain('faults[0]');
  expect(await command(simulator.url, 'constructor', {})).toBe(404);
  expect((await fetch(`${simulator.url}/v2/else`)).status).toBe(404);
});
