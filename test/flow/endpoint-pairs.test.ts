import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ProfileName } from '../../simulator/profiles.ts';
import { propertyRuns } from '../support/property-runs.ts';
import {
  CONVERSATIONS_PER_RUN,
  type Conversation,
  ENDPOINTS,
  type Endpoint,
  expectToGoOn,
  STEPS,
  startTalk,
  type Talk,
  type Turn,
  WITH_EVERY_ACT,
} from './endpoint-talk.ts';

let talk: Talk;
beforeAll(async () => {
  talk = await startTalk();
});
afterAll(() => talk[Symbol.asyncDispose]());

const PAIRS = ENDPOINTS.flatMap((first) => ENDPOINTS.map((second): readonly [Endpoint, Endpoint] => [first, second]));
/** Of these every pair is one, before any of them is one again. */
const STRIDE = 149;
const SEED = Number(process.env['BATON_TEST_SEED'] ?? 7);

const turn: fc.Arbitrary<Turn> = fc
  .record({
    model: fc.constantFrom<0 | 1>(0, 1),
    steps: fc.array(fc.constantFrom(...STEPS), { maxLength: 4 }),
    picture: fc.option(fc.constantFrom('whole' as const, 'broken' as const), { nil: undefined, freq: 2 }),
    compacts: fc.nat(3).map((chance) => chance === 0),
    isBare: fc.nat(7).map((chance) => chance === 0),
  })
  .map(({ picture, ...rest }) => (picture === undefined ? rest : { ...rest, picture }));

/** Counts what happened, so that a run without the acts is seen. */
const tally = new Map<string, number>();
const count = (what: string, by = 1): void => void tally.set(what, (tally.get(what) ?? 0) + by);

async function note({ sessionId, ends, requests }: Conversation): Promise<void> {
  count('conversations');
  count('requests', requests.length);
  count('runs', ends.length);
  count('cancels', ends.filter(([status]) => status === 'cancelled').length);
  count('compactions', requests.filter(({ summary, status }) => summary && status === 200).length);
  for (const { model, brokenRule } of requests) {
    if (brokenRule !== undefined) count(`${model.replace(/-n\d+$/, '')}: ${brokenRule}`);
  }
  const { deps } = talk.service;
  const switches = deps.db.selectFrom('events').select('data').where('session_id', '=', sessionId);
  const switched = await switches.where('type', '=', 'llm:switched').execute();
  count('fallbacks', switched.filter(({ data }) => data['reason'] === 'quota').length);
}

/** The rules of each that the conversation with every act breaks, the first time. */
const BROKEN: Readonly<Record<ProfileName, readonly string[]>> = {
  deepseek: ['images', 'thoughts'],
  kimi: [],
  mistral: ['ids', 'order'],
  vllm: ['combination', 'images'],
  lmstudio: ['temperature'],
  gateway: [],
  'gemini-compat': ['images', 'signatures'],
  ollama: ['content', 'images'],
  anthropic: ['combination', 'images'],
  bedrock: ['definitions'],
  'deepseek-anthropic': ['images', 'thoughts'],
  openai: ['combination', 'images', 'summary'],
  'responses-pool': ['combination', 'reasoning', 'searches'],
  'responses-plain': ['include', 'prompt_cache_key', 'searches'],
};
const KIMI: Endpoint = { profile: 'kimi', provider: 'compatible' };

it.each(ENDPOINTS.map((endpoint) => [endpoint.profile, endpoint.provider, endpoint] as const))(
  '%s goes on over %s through calls, steering, pictures, cancels, a compaction, switches and fallbacks',
  async (profile, provider, endpoint) => {
    const { requests } = await expectToGoOn(talk, [endpoint, KIMI], WITH_EVERY_ACT);
    const own = requests.filter(({ model, brokenRule }) => brokenRule !== undefined && !model.startsWith('kimi'));
    // Only this provider sends these fields.
    const sent = profile === 'gateway' && provider === 'chat' ? ['prompt_cache_key', 'store'] : BROKEN[profile];
    expect([...new Set(own.map(({ brokenRule }) => brokenRule))].toSorted()).toEqual(sent);
  },
);

it('conversations over all pairs of endpoints go on, and no model refuses one twice for the same reason', async () => {
  const conversations = propertyRuns(CONVERSATIONS_PER_RUN);
  for (let no = 0; no < conversations; no++) {
    const pair = PAIRS[(SEED + no * STRIDE) % PAIRS.length] ?? PAIRS[0];
    if (pair === undefined) throw new Error('There are no endpoints.');
    const property = fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 4 }), async (turns) => {
      await note(await expectToGoOn(talk, pair, turns));
    });
    try {
      await fc.assert(property, { numRuns: 1, seed: SEED + no });
    } catch (error) {
      throw new Error(`Over ${JSON.stringify(pair)}, seed ${SEED}, conversation ${no}`, { cause: error });
    }
  }
  process.stdout.write(
    `endpoints, seed ${SEED}: ${[...tally].map(([what, times]) => `${times} ${what}`).join(', ')}\n`,
  );
  for (const act of ['cancels', 'compactions', 'fallbacks']) expect(tally.get(act)).toBeGreaterThan(0);
}, 7_200_000);
