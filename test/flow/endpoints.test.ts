import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readStepLog } from '../../src/store/lists/step-log.ts';
import { type Endpoint, expectToGoOn, startTalk, type Talk, type Turn, WITH_EVERY_ACT } from './endpoint-talk.ts';

let talk: Talk;
beforeAll(async () => {
  talk = await startTalk();
});
afterAll(() => talk[Symbol.asyncDispose]());

const KIMI: Endpoint = { profile: 'kimi', provider: 'compatible' };
const MISTRAL: Endpoint = { profile: 'mistral', provider: 'compatible', model: 'mistral-known' };
const CLAUDE: Endpoint = { profile: 'anthropic', provider: 'messages' };

const adaptedKinds = async (sessionId: string): Promise<string[]> => {
  const events = talk.service.deps.db.selectFrom('events').select('data').where('session_id', '=', sessionId);
  const rows = await events.where('type', '=', 'llm:adapted').execute();
  return rows.flatMap(({ data }) => (data as { changes: { kind: string }[] }).changes.map(({ kind }) => kind));
};

async function compactionRows(sessionId: string) {
  const { db } = talk.service.deps;
  const runs = await db.selectFrom('compactions').select('run_id').where('session_id', '=', sessionId).execute();
  const pages = await Promise.all(
    runs.map(({ run_id: runId }) => readStepLog(db, { tenantId: 'default', runId: runId ?? '', after: 0, limit: 100 })),
  );
  return pages.flatMap(({ input }) => input.compactions);
}

// All pairs of endpoints are in endpoint-pairs.test.ts.
describe('an endpoint that answers a little differently', () => {
  it('goes on through calls, steering, pictures, cancels, a compaction, switches and fallbacks', async () => {
    const { requests } = await expectToGoOn(talk, [CLAUDE, KIMI], WITH_EVERY_ACT);
    const broken = requests.map(({ brokenRule }) => brokenRule).filter((rule) => rule !== undefined);
    expect(new Set(broken)).toEqual(new Set(['combination', 'thoughts', 'images']));
  });

  it('takes over a conversation that shows the same picture in several places', async () => {
    const turns: readonly Turn[] = [
      { model: 0, steps: ['shot', 'shot'], picture: 'whole' },
      { model: 1, steps: ['look', 'steered'] },
    ];
    const { requests } = await expectToGoOn(talk, [KIMI, { profile: 'deepseek', provider: 'chat' }], turns);
    expect(requests.filter(({ brokenRule }) => brokenRule === 'images')).toHaveLength(1);
  });

  it('is asked in its own way by the next session at once', async () => {
    const ask = async () => {
      const { sessionId, requests } = await expectToGoOn(
        talk,
        [MISTRAL, KIMI],
        [{ model: 0, steps: ['steered', 'look'] }],
      );
      const refused = requests.filter(({ refusal }) => refusal !== undefined).length;
      return { refused, adapted: await adaptedKinds(sessionId) };
    };
    expect(await ask()).toEqual({ refused: 1, adapted: ['bridge_roles'] });
    expect(await ask()).toEqual({ refused: 0, adapted: [] });
  });

  it('is known also from an answer that somebody stops', async () => {
    const turns: readonly Turn[] = [
      { model: 0, steps: ['silenced'] },
      { model: 0, steps: [] },
    ];
    const { requests } = await expectToGoOn(talk, [CLAUDE, KIMI], turns);
    expect(requests.map(({ brokenRule }) => brokenRule)).toEqual(['combination', undefined, undefined]);
  });

  it('is not asked in the way of the model that it replaces in the same step', async () => {
    const turns: readonly Turn[] = [
      { model: 1, steps: ['look'] },
      { model: 0, steps: ['quota'] },
    ];
    const deepseek: Endpoint = { profile: 'deepseek', provider: 'chat' };
    const bedrock: Endpoint = { profile: 'bedrock', provider: 'messages' };
    const { requests } = await expectToGoOn(talk, [deepseek, bedrock], turns);
    expect(requests.map(({ model, status }) => `${model.split('-')[0]} ${status}`)).toEqual([
      'claude 200',
      'claude 200',
      'deepseek 400',
      'deepseek 429',
      'claude 200',
    ]);
  });

  it('writes a summary before it has taken a step, and its log says how the request was changed', async () => {
    const turns: readonly Turn[] = [
      { model: 1, steps: ['look', 'look', 'shot'] },
      { model: 0, steps: [], compacts: true },
    ];
    const deepseek: Endpoint = { profile: 'deepseek', provider: 'compatible' };
    const { sessionId, requests } = await expectToGoOn(talk, [deepseek, KIMI], turns);
    expect(await adaptedKinds(sessionId)).toEqual(['omit_file', 'return_thoughts']);
    expect((await compactionRows(sessionId)).map(({ adapted }) => adapted)).toEqual([
      expect.stringMatching(/^A file is left out: .+\. The thoughts of earlier steps are sent back/),
    ]);
    const summaries = requests.filter(({ summary }) => summary);
    expect(summaries.map(({ model, brokenRule }) => [model.split('-')[0], brokenRule])).toEqual([
      ['deepseek', 'images'],
      ['deepseek', 'thoughts'],
      ['deepseek', undefined],
    ]);
  });
});
