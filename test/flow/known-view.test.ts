import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { Tool } from '../../src/tools/tool.ts';
import { anyBackend, type Backend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** A tool that rewrites the user's message behind the engine's back, and raises the view's version or not. */
function rewritingTool(service: () => TestService, raisesVersion: boolean): Tool {
  return {
    name: 'rewrite',
    description: 'rewrites the past',
    inputSchema: { type: 'object' },
    async execute() {
      const { db } = service().deps;
      await sql`
        update parts set content = jsonb_set(content, '{text}', '"Rewritten"')
        where content ->> 'text' = 'Go'`.execute(db);
      if (raisesVersion) await sql`update sessions set view_version = view_version + 1`.execute(db);
      return 'done';
    },
  };
}

async function secondRequest(backend: Backend, raisesVersion: boolean): Promise<string> {
  let service: TestService | undefined;
  const tool = rewritingTool(() => {
    if (service === undefined) throw new Error('not started');
    return service;
  }, raisesVersion);
  service = await startTestService({ backend, tools: [tool] });
  await using _ = service;
  service.simulator.script('test', [{ toolCalls: [{ name: 'rewrite', input: {} }] }, { text: 'Done.' }]);
  await service.startWorker();
  const { runId } = await service.send(await service.createSession(), 'Go');
  expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
  return service.simulator.requests[1]?.request?.messages.map(({ text }) => text).join('\n') ?? '';
}

describe('the next step of a worker', () => {
  const backend = anyBackend();
  it('shows what the worker knows of the view, and reads only what came after it', async () => {
    expect(await secondRequest(backend, false)).toContain('Go');
  });

  it('reads it anew where its version is another one', async () => {
    const text = await secondRequest(backend, true);
    expect(text).toContain('Rewritten');
    expect(text).not.toContain('Go');
  });
});
