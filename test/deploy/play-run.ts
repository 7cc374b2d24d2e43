import { expect } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { TestService } from '../support/service.ts';

/**
 * Sends a message to a service in other processes; its model calls `grep`, which starts a thread from a file, and
 * `bash`, which starts processes. Expects both results in the transcript.
 */
export async function expectWorkingRun(service: TestService, workspaceFile: string): Promise<void> {
  service.simulator.script('*', [
    { toolCalls: [{ name: 'grep', input: { pattern: 'needle' } }] },
    { toolCalls: [{ name: 'bash', input: { command: `wc -l < ${workspaceFile}` } }] },
    { text: 'Found.' },
  ]);
  const sessionId = await service.createSession({ tools: ['workspace'] });
  const { runId } = await service.send(sessionId, 'Look for the needle.');
  const run = await service.ended(runId);
  const messages = await listMessages(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 20 });
  const outputs = messages
    .flatMap(({ parts }) => parts)
    .flatMap((part) => (part.type === 'tool' ? [part.output?.type === 'text' ? part.output.value : part.output] : []));
  expect({ status: run.status, outputs }).toEqual({
    status: 'completed',
    outputs: [`${workspaceFile}:2: a needle`, expect.stringMatching(/^3\b/)],
  });
}

/** Expects the files of the page of the API from a service that has no packages of development. */
export async function expectApiPage(url: string): Promise<void> {
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) {
    const { status } = await fetch(`${url}/docs/${name}`);
    expect({ name, status }).toEqual({ name, status: 200 });
  }
}

export const WORKSPACE_FILE = { name: 'hay.txt', content: 'hay\na needle\nhay\n' };
