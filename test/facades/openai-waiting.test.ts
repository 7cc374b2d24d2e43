import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import type { Fault } from '../../simulator/fault.ts';
import { eventually } from '../support/eventually.ts';
import { conversationSuite, user } from './openai-conversations-fixture.ts';

const { service, url, nextModel, gate, sessionsOf, statesOf, transcriptsOf, ask } = conversationSuite();

/**
 * A model at work on the first message of a named session, with functions to send to the session and watch its queue.
 */
async function atWork(name: string, faults: readonly Fault[] = []) {
  const held = { text: 'First.', chunkChars: 3, gates: { afterChunks: { count: 1, gate: name } } };
  const model = nextModel([held, { text: 'Second.' }]);
  service().simulator.fault(model, faults);
  const headers = { 'x-session-id': name };
  const first = ask(model, [user('One')], {}, headers);
  await gate(name).reached;
  const [session] = await sessionsOf(model);
  const sessionUrl = `${url()}/v1/sessions/ses_${session?.id.replaceAll('-', '')}`;
  const waiting = async () => {
    const { db } = service().deps;
    const inbox = db
      .selectFrom('inbox')
      .selectAll()
      .where('session_id', '=', session?.id ?? '')
      .orderBy('seq');
    return inbox.where('consumed_message_seq', 'is', null).execute();
  };
  return {
    model,
    first,
    sessionUrl,
    say: (text: string) => ask(model, [user(text)], {}, { ...headers, 'idempotency-key': text }),
    waits: (count: number) => eventually(async () => (await waiting()).length === count, `${count} messages wait`),
  };
}

describe('a message with a key that waits in a session with a name', () => {
  test('and was removed is said again by the same request', async () => {
    const { model, first, sessionUrl, say, waits } = await atWork('removed');
    const removed = expect(say('Two')).rejects.toThrow(OpenAI.APIError);
    await waits(1);
    expect((await fetch(`${sessionUrl}/queue`, { method: 'DELETE' })).status).toBe(200);
    await removed;
    const again = say('Two');
    await waits(1);
    gate('removed').release();
    expect([await first, await again]).toEqual(['First.', 'Second.']);
    expect(await transcriptsOf(model)).toEqual([['user: One', 'assistant: First.', 'user: Two', 'assistant: Second.']]);
  });

  const BROKEN = { kind: 'error-in-stream', afterChunks: 2, code: 'content_policy_violation', message: 'no' } as const;
  test.each([
    ['cancelled', []],
    ['failed', [BROKEN]],
  ] as const)(
    'and was left there by a run that was %s is taken up when the same request comes again',
    async (status, faults) => {
      const { model, first, sessionUrl, say, waits } = await atWork(`left by one that was ${status}`, faults);
      const ended = [first, say('Two')].map((asked) => expect(asked).rejects.toThrow(OpenAI.APIError));
      await waits(1);
      if (status === 'failed') gate(`left by one that was ${status}`).release();
      else expect((await fetch(`${sessionUrl}/cancel`, { method: 'POST' })).status).toBe(202);
      await Promise.all(ended);
      service().simulator.script(model, [{ text: 'Second.' }]);
      expect(await say('Two')).toBe('Second.');
      expect(await statesOf(model)).toEqual([status, 'completed']);
      expect((await transcriptsOf(model))[0]?.filter((line) => line === 'user: Two')).toHaveLength(1);
      await waits(0);
    },
  );
});
