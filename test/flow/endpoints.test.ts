import { writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PROFILE_NAMES, type ProfileName } from '../../simulator/profiles.ts';
import type { RequestRecord, SimulatedRequest } from '../../simulator/request.ts';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { acceptMessage } from '../../src/store/inbox.ts';
import { switchAgent } from '../../src/store/switch-agent.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const KINDS = ['compatible', 'chat'] as const;
type Kind = (typeof KINDS)[number];

/** What a turn of a conversation does: the model's steps, and what a person does before and meanwhile. */
type Turn = Readonly<{
  model: 0 | 1;
  steps: readonly ('look' | 'shot' | 'steered' | 'both')[];
  withPicture: boolean;
}>;

let stack: AsyncDisposableStack;
let service: TestService;
/** The session in which a call may steer. */
let steered = '';

const steer = async () => {
  const text = { type: 'text' as const, text: 'And this, please.' };
  await acceptMessage(service.deps.db, {
    tenantId: 'default',
    sessionId: steered,
    messageId: service.deps.newId(),
    content: [text],
    runId: service.deps.newId(),
    limits: {},
  });
};

const anyOf = [{ required: ['at'] }, { required: ['of'] }];
const schema = { type: 'object' as const, properties: { at: { type: 'string' }, of: { type: 'string' } } };
const tools: Tool[] = [
  { name: 'look', description: 'Looks.', inputSchema: { ...schema, anyOf }, execute: async () => 'seen' },
  {
    name: 'shot',
    description: 'Takes a picture.',
    inputSchema: schema,
    execute: async () => ({ type: 'content', value: [{ type: 'media', mediaType: 'image/png', data: PNG_BASE64 }] }),
  },
  {
    name: 'steered',
    description: 'Takes its time.',
    inputSchema: schema,
    execute: async () => {
      await steer();
      return 'slept';
    },
  },
];

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const file = path.join(folder.path, 'providers.json');
  const modelsFile = path.join(folder.path, 'models.json');
  process.env['ENDPOINT_KEY'] = 'sk-test';
  // The service's own simulator is known only once the service has started.
  const { startSimulator } = await import('../../simulator/server.ts');
  simulator = stack.use(await startSimulator());
  const baseUrl = `${simulator.url}/v1`;
  const providers = {
    compatible: { kind: 'openai-compatible', baseUrl },
    chat: { kind: 'openai-chat', baseUrl, apiKeyEnv: 'ENDPOINT_KEY' },
  };
  writeFileSync(file, JSON.stringify({ providers }));
  const models = KINDS.map((provider) => ({
    provider,
    model: '*',
    contextWindow: 100_000,
    maxOutput: 4_000,
    mediaTypes: ['image/png'],
  }));
  writeFileSync(modelsFile, JSON.stringify(models));
  service = stack.use(
    await startTestService({
      backend: 'postgres',
      tools,
      environment: { BATON_PROVIDERS_FILE: file, BATON_MODELS_FILE: modelsFile },
    }),
  );
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

let simulator: Awaited<ReturnType<typeof import('../../simulator/server.ts').startSimulator>>;
let conversations = 0;

/** Plays the turns, and returns the requests of the conversation. */
async function converse(
  kinds: readonly [Kind, Kind],
  names: readonly [ProfileName, ProfileName],
  turns: readonly Turn[],
) {
  const no = ++conversations;
  const models = names.map((name, at) => `${name}-${no}-${at}`);
  for (const [at, model] of models.entries()) simulator.setProfile(model, names[at]);
  const before = simulator.requests.length;
  let steps: string[] = [];
  simulator.script('*', (request: SimulatedRequest) => {
    const step = request.tools.length === 0 ? undefined : steps.shift();
    if (step === undefined) return { reasoning: 'That is all.', text: 'Done.' };
    const called = step === 'both' ? ['look', 'shot'] : [step];
    return { reasoning: 'Look it up.', toolCalls: called.map((name) => ({ name, input: { at: 'here' } })) };
  });
  const modelOf = (at: 0 | 1): string => `${kinds[at]}/${models[at]}`;
  const session = await service.createSession({ model: modelOf(0), settings: { temperature: 0 } });
  steered = session;
  const ended: Awaited<ReturnType<TestService['ended']>>[] = [];
  for (const turn of turns) {
    steps = [...turn.steps];
    const agent = agentSchema.parse({
      name: 'tester',
      model: modelOf(turn.model),
      tools: ['test'],
      settings: { temperature: 0 },
    });
    const kept = { name: agent.name, version: agentVersion(agent), snapshot: agent, overrides: {} };
    const at = { tenantId: 'default', sessionId: session };
    await service.deps.db.transaction().execute((tx) => switchAgent(tx, at, () => kept));
    const picture = { type: 'file' as const, mediaType: 'image/png', url: `data:image/png;base64,${PNG_BASE64}` };
    const accepted = await acceptMessage(service.deps.db, {
      ...at,
      messageId: service.deps.newId(),
      content: [{ type: 'text', text: 'Go on.' }, ...(turn.withPicture ? [picture] : [])],
      runId: service.deps.newId(),
      limits: {},
    });
    if (accepted.job !== null) await service.deps.jobs.add([accepted.job]);
    ended.push(await service.ended(accepted.runId));
  }
  return { ended, requests: simulator.requests.slice(before) };
}

/** Refusals of the same model for the same rule, beyond the first. */
function refusedAgain(requests: readonly RequestRecord[]): string[] {
  const reasons = requests.flatMap(({ model, brokenRule }) =>
    brokenRule === undefined ? [] : [`${model}: ${brokenRule}`],
  );
  // A picture is left out by itself: each new one is refused once.
  return reasons.filter((reason, at) => reasons.indexOf(reason) !== at && !reason.endsWith('images'));
}

const LONG: readonly Turn[] = [
  { model: 0, steps: ['look', 'steered', 'both'], withPicture: false },
  { model: 1, steps: ['look', 'shot', 'steered'], withPicture: true },
  { model: 0, steps: ['look'], withPicture: false },
  { model: 1, steps: [], withPicture: false },
];

describe('an endpoint that answers a little differently', () => {
  it.each(PROFILE_NAMES.flatMap((name) => KINDS.map((kind) => [name, kind] as const)))(
    '%s goes on over %s through calls, steering, pictures and a switch',
    async (name, kind) => {
      const { ended, requests } = await converse([kind, kind], [name, 'kimi'], LONG);
      expect(ended.map(({ status, error }) => [status, error])).toEqual(LONG.map(() => ['completed', null]));
      expect(refusedAgain(requests)).toEqual([]);
      expect(requests.flatMap(({ violations }) => violations)).toEqual([]);
    },
  );

  it('takes over a conversation that shows the same picture in several places', async () => {
    const turns: readonly Turn[] = [
      { model: 0, steps: ['shot', 'shot'], withPicture: true },
      { model: 1, steps: ['look', 'steered'], withPicture: false },
    ];
    const { ended, requests } = await converse(['compatible', 'chat'], ['kimi', 'deepseek'], turns);
    expect(ended.map(({ status, error }) => [status, error])).toEqual(turns.map(() => ['completed', null]));
    expect(requests.filter(({ brokenRule }) => brokenRule === 'images')).toHaveLength(1);
  });

  it('is asked in its own way by the next session at once', async () => {
    const turns: readonly Turn[] = [{ model: 0, steps: ['steered', 'look'], withPicture: false }];
    const model = `mistral-known-${++conversations}`;
    const ask = async () => {
      const before = simulator.requests.length;
      simulator.setProfile(model, 'mistral');
      let steps = [...(turns[0]?.steps ?? [])];
      simulator.script('*', () => {
        const [step, ...rest] = steps;
        steps = rest;
        return step === undefined ? { text: 'Done.' } : { toolCalls: [{ name: step, input: { at: 'here' } }] };
      });
      const session = await service.createSession({ model: `compatible/${model}` });
      steered = session;
      const { runId } = await service.send(session, 'Go on.');
      expect(await service.ended(runId)).toMatchObject({ status: 'completed', error: null });
      const rows = await eventsOf(session);
      return {
        refused: simulator.requests.slice(before).filter(({ refusal }) => refusal !== undefined).length,
        adapted: rows,
      };
    };
    expect(await ask()).toEqual({ refused: 1, adapted: ['bridge_roles'] });
    expect(await ask()).toEqual({ refused: 0, adapted: [] });
  });
});

async function eventsOf(sessionId: string): Promise<string[]> {
  const rows = await service.deps.db
    .selectFrom('events')
    .select('data')
    .where('session_id', '=', sessionId)
    .where('type', '=', 'llm:adapted')
    .execute();
  return rows.flatMap(({ data }) => (data as { changes: { kind: string }[] }).changes.map(({ kind }) => kind));
}

const turn: fc.Arbitrary<Turn> = fc.record({
  model: fc.constantFrom(0, 1),
  steps: fc.array(fc.constantFrom('look', 'shot', 'steered', 'both'), { maxLength: 3 }),
  withPicture: fc.boolean(),
});
const profile = fc.constantFrom(...PROFILE_NAMES);
const kind = fc.constantFrom(...KINDS);

it('conversations over any two endpoints go on, and are refused for no reason twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(kind, kind),
      fc.tuple(profile, profile),
      fc.array(turn, { minLength: 1, maxLength: 4 }),
      async (kinds, names, turns) => {
        const { ended, requests } = await converse(kinds, names, turns);
        expect(ended.map(({ status, error }) => [status, error])).toEqual(turns.map(() => ['completed', null]));
        expect(refusedAgain(requests)).toEqual([]);
        expect(requests.flatMap(({ violations }) => violations)).toEqual([]);
      },
    ),
    { numRuns: propertyRuns(0.4) },
  );
}, 600_000);
