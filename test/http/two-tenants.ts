import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { answerStep, askStep, claimJob } from './play-worker.ts';
import type { TestApi } from './test-api.ts';

/** A tenant and the ids of its things. `word` is in this tenant's texts and nowhere else. */
export type Tenant = Readonly<{
  name: string;
  word: string;
  key: TestKey;
  ids: Readonly<Record<string, string[]>>;
}>;

/**
 * Makes a tenant with four sessions: one whose run has ended, one with a run and waiting messages, one that waits for
 * answers to calls, and one without messages.
 */
export async function createTenant(api: TestApi, name: string): Promise<Tenant> {
  const key = await createTestKey(api.db, name, SCOPES);
  const word = `word-${randomUUID()}`;
  const post = async (path: string, body: object) => (await api.call('POST', path, body, key.headers)).body;
  const [worked, busy, waiting, idle] = await Promise.all(
    ['worked', 'busy', 'waiting', 'idle'].map(async (title) =>
      String((await post('/v1/sessions', { agent: 'coder', title: word, metadata: { title } }))['id']),
    ),
  );
  const send = (session: string | undefined) => post(`/v1/sessions/${session}/messages`, { content: `say ${word}` });
  const first = await send(worked);
  const answer = await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), `I say ${word}`);
  expect(answer.branch).toBe('otherwise');
  const asking = await send(waiting);
  const asked = { kind: 'approval', toolName: word } as const;
  const calls = await askStep(api.db, await claimJob(api.db, api.added.at(-1)), [asked, asked]);
  const sent = [await send(busy), await send(busy), await send(busy)];
  const runs = [first, ...sent, asking].map((message) => String(message['runId']));
  const messages = [...sent.slice(1), first].map((message) => String(message['messageId']));
  const file = await api.call('POST', '/v1/blobs', `a file of ${word}`, {
    ...key.headers,
    'content-type': 'text/plain',
  });
  const ids = {
    blob: [String(file.body['id'])],
    ses: [worked, busy, idle, waiting].map(String),
    run: [...new Set(runs)],
    msg: messages,
    call: calls.map(({ id }) => id),
    key: [],
  };
  return { name, word, key, ids: { ...ids, key: [formatId('key', key.id)] } };
}

/** A new id of that kind. Nothing in the database has it. */
export const freshId = (kind: string): string => `${kind}_${newId().replaceAll('-', '')}${kind === 'call' ? '_0' : ''}`;
