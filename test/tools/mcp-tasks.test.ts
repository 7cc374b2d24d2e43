import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/transcript/message.ts';
import type { OutsideWork } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { createMcpFixture } from './mcp-fixture.ts';
import { startTaskServer, type TaskEra } from './task-server.ts';

const idle = new AbortController().signal;
const ERAS: readonly TaskEra[] = ['modern', 'legacy'];

/** What a step keeps beside the call. */
function createNotes(earlier: Json | null = null, isHandedOver = false) {
  const notes: Json[] = [];
  const outside: OutsideWork = {
    earlier,
    note: async (work) => notes.push(work) > 0,
    isHandedOver: () => isHandedOver,
  };
  return { notes, outside };
}

function createStdioServer(era: TaskEra) {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-tasks-'));
  const ledger = path.join(folder, 'ledger');
  writeFileSync(ledger, '');
  const file = fileURLToPath(new URL('./task-server.ts', import.meta.url));
  return {
    config: { command: process.execPath, args: [file, era, ledger] },
    lines: (): readonly string[] => readFileSync(ledger, 'utf8').trim().split('\n'),
    [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true }),
  };
}

describe.each(ERAS)('a tool that is called as a task, %s', (era) => {
  it.each([
    ['HTTP', startTaskServer],
    ['stdio', async (of: TaskEra) => createStdioServer(of)],
  ])('is asked about until it has its result, over %s', async (_by, start) => {
    await using server = await start(era);
    await using fixture = createMcpFixture({ own: server.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const { notes, outside } = createNotes();
    expect(await fixture.call(agent, 'own__build', {}, idle, outside)).toBe('build is done');
    expect(notes).toEqual([{ taskId: expect.any(String), pollIntervalMs: expect.any(Number) }]);
    const asked = server.lines().filter((line) => line !== 'result build');
    expect(asked).toEqual(['call build', 'get build', 'get build']);
  });

  it('tells how a task failed, and does not wait for one that asks', async () => {
    await using server = await startTaskServer(era);
    await using fixture = createMcpFixture({ own: server.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    await expect(fixture.call(agent, 'own__fail')).rejects.toThrow('fail broke');
    await expect(fixture.call(agent, 'own__stop')).rejects.toThrow('own has cancelled the call');
    const words = era === 'modern' ? 'asks for more before it goes on' : /cannot give it/;
    await expect(fixture.call(agent, 'own__ask')).rejects.toThrow(words);
    // A person is asked, and the task waits at the server; of an older one nobody is told what it asks.
    const cancels = era === 'modern' ? [] : ['cancel ask'];
    expect(server.lines().filter((line) => line.startsWith('cancel'))).toEqual(cancels);
  });

  it.each([
    ['cancelled with its call', false, ['cancel hang']],
    ['left to the worker that goes on with it', true, []],
  ])('is %s', async (_what, isHandedOver, cancels) => {
    await using server = await startTaskServer(era);
    await using fixture = createMcpFixture({ own: server.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const stop = new AbortController();
    const { outside } = createNotes(null, isHandedOver);
    const ended = fixture.call(agent, 'own__hang', {}, stop.signal, outside).catch(String);
    await eventually(async () => server.lines().includes('get hang'), 'the task is asked about');
    stop.abort(new Error('stopped'));
    expect(await ended).toMatch(/outcome of the call is unknown/);
    expect(server.lines().filter((line) => line.startsWith('cancel'))).toEqual(cancels);
  });

  it('is gone on with by the next worker, over connections that fail', async () => {
    await using server = await startTaskServer(era);
    const { notes, outside } = createNotes(null, true);
    {
      await using fixture = createMcpFixture({ own: server.config });
      const stop = new AbortController();
      const agent = await fixture.pin([{ mcp: 'own' }]);
      const ended = fixture.call(agent, 'own__hang', {}, stop.signal, outside).catch(String);
      await eventually(async () => server.lines().includes('get hang'), 'the task is asked about');
      stop.abort();
      await ended;
    }
    await using fixture = createMcpFixture({ own: server.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    server.end();
    server.refuse(503, 0);
    const next = createNotes(notes[0]);
    expect(await fixture.call(agent, 'own__hang', {}, idle, next.outside)).toBe('hang is done');
    expect(next.notes).toEqual([]);
    expect(server.lines().filter((line) => line.startsWith('call'))).toEqual(['call hang']);
  });

  it('whose server has forgotten it is of unknown outcome, and is begun anew where the call may be repeated', async () => {
    await using server = await startTaskServer(era);
    await using fixture = createMcpFixture({ own: server.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const { outside, notes } = createNotes({ taskId: 'of yesterday' });
    await expect(fixture.call(agent, 'own__build', {}, idle, outside)).rejects.toThrow(
      /does not know the task.*outcome of the call is unknown/,
    );
    expect(server.lines()).toEqual([]);
    const trusted = { ...agent, mcpServers: { own: { ...server.config, timeoutMs: 60_000, trust: true } } };
    const tools = trusted.pinnedTools?.['own']?.tools.map((tool) => ({ ...tool, idempotentHint: true })) ?? [];
    const repeatable = { ...trusted, pinnedTools: { own: { hash: '', tools } } };
    expect(await fixture.call(repeatable, 'own__build', {}, idle, outside)).toBe('build is done');
    expect(notes).toHaveLength(1);
  });
});

it('a task that could not be noted is cancelled with its call, whoever goes on', async () => {
  await using server = await startTaskServer('modern');
  await using fixture = createMcpFixture({ own: server.config });
  const agent = await fixture.pin([{ mcp: 'own' }]);
  const stop = new AbortController();
  const outside: OutsideWork = {
    earlier: null,
    note: async () => {
      stop.abort();
      return false;
    },
    isHandedOver: () => true,
  };
  await expect(fixture.call(agent, 'own__hang', {}, stop.signal, outside)).rejects.toThrow();
  expect(server.lines()).toEqual(['call hang', 'cancel hang']);
});

it('a tool that has to be called as a task is left out of a server that takes none', async () => {
  await using server = await startTaskServer('legacy', { takesTasks: false });
  await using fixture = createMcpFixture({ own: server.config });
  const agent = await fixture.pin([{ mcp: 'own', include: ['build'] }]);
  expect(await fixture.servers.leftOut(agent)).toEqual([
    { server: 'own', tool: 'build', reason: 'it has to be called as a task, and the server does not take tasks' },
  ]);
});
