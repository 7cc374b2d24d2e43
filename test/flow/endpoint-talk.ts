import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { PROFILE_NAMES, type ProfileName, profileNamed } from '../../simulator/profiles.ts';
import type { Reply } from '../../simulator/reply.ts';
import type { Protocol, RequestRecord, SimulatedRequest } from '../../simulator/request.ts';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { switchAgent } from '../../src/store/changes/switch-agent.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { prose } from '../compaction/compaction-support.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A model of a simulated endpoint: its ways, and the provider of the configuration by which it is asked. */
export type Endpoint = Readonly<{
  profile: ProfileName;
  provider: 'compatible' | 'chat' | 'messages' | 'responses';
  /** Default: one that nobody has asked before. */
  model?: string;
}>;

const PROVIDERS: Readonly<Record<Protocol, readonly Endpoint['provider'][]>> = {
  chat: ['compatible', 'chat'],
  messages: ['messages'],
  responses: ['responses'],
};

export const ENDPOINTS: readonly Endpoint[] = PROFILE_NAMES.flatMap((profile) =>
  PROVIDERS[profileNamed(profile).protocol].map((provider) => ({ profile, provider })),
);

/** Of the property over all pairs. docs/providers.md says how many that makes. */
export const CONVERSATIONS_PER_RUN = 2;

/** The provider packages know models by their names: which of them think, and how that is asked for. */
const FAMILIES: Partial<Record<ProfileName, string>> = {
  anthropic: 'claude-opus-5-1',
  bedrock: 'claude-sonnet-4-5',
  openai: 'gpt-5.2',
  'responses-pool': 'gpt-5.2',
  'responses-plain': 'gpt-5.2',
};

/**
 * What the model or a person does in a step.
 * - `look`, `shot`, `both`: it calls a tool that answers with text, with a picture, or with each
 * - `blurred`: it calls a tool that answers with a picture that nobody can read
 * - `steered`: a message arrives while a tool runs
 * - `searched`: its provider runs a search, beside a call of ours
 * - `quota`: the model cannot answer, and the fallback is asked
 * - `stopped`, `silenced`: the run is cancelled while a tool runs, or in the middle of an answer
 */
export const STEPS = [
  'look',
  'shot',
  'both',
  'blurred',
  'steered',
  'searched',
  'quota',
  'stopped',
  'silenced',
] as const;
type Step = (typeof STEPS)[number];

/** A message and its run, with what is done before it. */
export type Turn = Readonly<{
  model: 0 | 1;
  steps: readonly Step[];
  picture?: 'whole' | 'broken';
  compacts?: boolean;
  /** The agent has no tools. */
  isBare?: boolean;
}>;

/** A conversation with every act. */
export const WITH_EVERY_ACT: readonly Turn[] = [
  { model: 0, steps: ['look', 'searched', 'steered', 'both'] },
  { model: 0, steps: [], isBare: true },
  { model: 1, steps: ['look', 'shot', 'steered', 'quota', 'look'], picture: 'whole' },
  { model: 0, steps: ['look', 'stopped'], compacts: true },
  { model: 1, steps: ['silenced'], picture: 'broken' },
  { model: 0, steps: ['blurred', 'quota'] },
];

export type Talk = AsyncDisposable &
  Readonly<{
    service: TestService;
    simulator: Simulator;
    /** Plays the turns in a new session. */
    converse: (endpoints: readonly [Endpoint, Endpoint], turns: readonly Turn[]) => Promise<Conversation>;
  }>;

export type Conversation = Readonly<{
  sessionId: string;
  /** How each run ended, and how it should have ended. */
  ends: readonly (readonly [unknown, unknown])[];
  wanted: readonly (readonly [unknown, unknown])[];
  requests: readonly RequestRecord[];
}>;

const BROKEN_PNG = Buffer.from(PNG_BASE64, 'base64').subarray(0, 40).toString('base64');
const schema = { type: 'object' as const, properties: { at: { type: 'string' }, of: { type: 'string' } } };
const anyOf = [{ required: ['at'] }, { required: ['of'] }];
const pictureOf = (data: string): Awaited<ReturnType<NonNullable<Tool['execute']>>> => ({
  type: 'content',
  value: [{ type: 'media', mediaType: 'image/png', data }],
});

/** Starts the service with providers whose simulator has the ways of other endpoints. */
export async function startTalk(): Promise<Talk> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const simulator = stack.use(await startSimulator());
  const files = writeConfiguration(folder.path, `${simulator.url}/v1`);
  const at: Place = { sessionId: '', runId: Promise.resolve(''), silenced: 0 };
  const held: { service?: TestService } = {};
  const owner = (): TestService => {
    if (held.service === undefined) throw new Error('The service has not started.');
    return held.service;
  };
  const service = stack.use(
    await startTestService({ backend: 'postgres', tools: toolsOf(owner, at), environment: files }),
  );
  held.service = service;
  await service.startWorker();
  const owned = stack.move();
  let count = 0;
  const modelAt = ({ profile, model = `${FAMILIES[profile] ?? profile}-n${count++}` }: Endpoint): string => {
    simulator.setProfile(model, profile);
    return model;
  };
  return {
    service,
    simulator,
    async converse(endpoints, turns) {
      const models = endpoints.map((endpoint) => `${endpoint.provider}/${modelAt(endpoint)}`);
      const before = simulator.requests.length;
      at.sessionId = await service.createSession({ model: models[0] ?? '' });
      const ends: [unknown, unknown][] = [];
      const wanted: [unknown, unknown][] = [];
      for (const turn of turns) {
        await switchTo(service, at.sessionId, models, turn);
        if (turn.compacts === true) {
          ends.push(await compact(service, at.sessionId));
          wanted.push(['completed', null]);
        }
        ends.push(await playTurn(service, simulator, at, turn));
        const isCancelled =
          turn.isBare !== true && turn.steps.some((step) => step === 'stopped' || step === 'silenced');
        wanted.push([isCancelled ? 'cancelled' : 'completed', null]);
      }
      return { sessionId: at.sessionId, ends, wanted, requests: simulator.requests.slice(before) };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function writeConfiguration(folder: string, baseUrl: string): Readonly<Record<string, string>> {
  process.env['ENDPOINT_KEY'] = 'sk-test';
  const at = { baseUrl, apiKeyEnv: 'ENDPOINT_KEY' };
  const providers = {
    compatible: { kind: 'openai-compatible', baseUrl },
    chat: { kind: 'openai-chat', ...at },
    messages: { kind: 'anthropic', ...at },
    responses: { kind: 'openai', ...at },
  };
  const models = Object.keys(providers).map((provider) => ({
    provider,
    model: '*',
    contextWindow: 100_000,
    maxOutput: 4_000,
    mediaTypes: ['image/png'],
  }));
  const files = {
    BATON_PROVIDERS_FILE: path.join(folder, 'providers.json'),
    BATON_MODELS_FILE: path.join(folder, 'models.json'),
  };
  writeFileSync(files.BATON_PROVIDERS_FILE, JSON.stringify({ providers }));
  writeFileSync(files.BATON_MODELS_FILE, JSON.stringify(models));
  return files;
}

/** The session that is talked to, its run, which begins before its id is known, and how many answers were held. */
type Place = { sessionId: string; runId: Promise<string>; silenced: number };

function toolsOf(owner: () => TestService, at: Place): Tool[] {
  const tool = (name: string, execute: NonNullable<Tool['execute']>): Tool => ({
    name,
    description: `The tool ${name}.`,
    inputSchema: name === 'look' ? { ...schema, anyOf } : schema,
    execute,
  });
  return [
    tool('look', async () => `seen: ${prose(3, 1_500)}`),
    tool('shot', async () => pictureOf(PNG_BASE64)),
    tool('blurred', async () => pictureOf(BROKEN_PNG)),
    tool('steered', async () => {
      await owner().sendParts(at.sessionId, [{ type: 'text', text: 'And this, please.' }]);
      return 'slept';
    }),
    tool('stopped', async (_input, { signal }) => {
      const stopped = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await owner().cancel(await at.runId);
      await stopped;
      return 'stopped';
    }),
  ];
}

async function compact(service: TestService, sessionId: string): Promise<[unknown, unknown]> {
  const { runId } = await service.maintain(sessionId, 'compaction');
  const { status, error } = await service.ended(runId);
  return [status, error];
}

async function switchTo({ deps }: TestService, sessionId: string, models: readonly string[], turn: Turn) {
  const [model = '', other = ''] = turn.model === 0 ? models : models.toReversed();
  const agent = agentSchema.parse({
    name: 'tester',
    model,
    fallbacks: [other],
    tools: turn.isBare === true ? [] : ['test'],
    settings: { temperature: 0 },
    context: { maxContextTokens: 16_000 },
  });
  const kept = { name: agent.name, version: agentVersion(agent), snapshot: agent, overrides: {} };
  await deps.db.transaction().execute((tx) => switchAgent(tx, { tenantId: 'default', sessionId }, () => kept));
}

async function playTurn(
  service: TestService,
  simulator: Simulator,
  at: Place,
  turn: Turn,
): Promise<[unknown, unknown]> {
  // A run has one fallback. Without one, it fails as it should.
  const steps = turn.steps.filter((step, at, all) => step !== 'quota' || all.indexOf(step) === at);
  simulator.script('*', (request) => replyTo(request, steps, service, simulator, at));
  const run = Promise.withResolvers<string>();
  at.runId = run.promise;
  const data = turn.picture === 'broken' ? BROKEN_PNG : PNG_BASE64;
  const picture = { type: 'file' as const, mediaType: 'image/png', url: `data:image/png;base64,${data}` };
  const accepted = await service.sendParts(at.sessionId, [
    { type: 'text', text: 'Go on.' },
    ...(turn.picture === undefined ? [] : [picture]),
  ]);
  run.resolve(accepted.runId);
  const { status, error } = await service.ended(accepted.runId);
  return [status, error];
}

const QUOTA = {
  status: 429,
  body: { error: { message: 'You exceeded your current quota.', code: 'insufficient_quota' } },
};

function replyTo(
  request: SimulatedRequest,
  steps: Step[],
  service: TestService,
  simulator: Simulator,
  at: Place,
): Reply {
  const isOffered = request.tools.some(({ name }) => name === 'look');
  const step = isOffered ? steps.shift() : undefined;
  switch (step) {
    case undefined:
      return { reasoning: 'That is all.', text: 'Done.' };
    case 'quota':
      return { fault: QUOTA };
    case 'silenced': {
      const gate = `silenced ${at.silenced++}`;
      void simulator.gate(gate).reached.then(async () => service.cancel(await at.runId));
      const gates = { afterChunks: { count: 2, gate } };
      return { reasoning: 'Look it up.', text: 'I am about to say it all.', chunkChars: 8, gates };
    }
    case 'searched':
      return { reasoning: 'Search it.', searches: ['weather'], text: 'Found.', toolCalls: [callOf('look')] };
    case 'both':
      return { reasoning: 'Look it up.', text: 'Both.', toolCalls: ['look', 'shot'].map(callOf) };
    default:
      return { reasoning: 'Look it up.', toolCalls: [callOf(step)] };
  }
}

const callOf = (name: string) => ({ name, input: { at: 'here' } });

/**
 * Refusals of the same model for the same rule, beyond the first. A picture is left out by itself: each one of the
 * conversation is refused once, by its place in a message or in a result.
 */
function refusedAgain({ requests }: Pick<Conversation, 'requests'>, pictures: number): string[] {
  const reasons = requests.flatMap(({ model, brokenRule }) =>
    brokenRule === undefined ? [] : [`${model}: ${brokenRule}`],
  );
  return [...Map.groupBy(reasons, (reason) => reason)].flatMap(([reason, { length }]) =>
    length > (reason.endsWith(': images') ? Math.max(1, pictures) : 1) ? [`${reason}, ${length} times`] : [],
  );
}

/** The number of different pictures that turns show. */
function picturesOf(turns: readonly Turn[]): number {
  const shown = turns.flatMap(({ steps, picture }) => [
    ...(picture === undefined ? [] : [`${picture} of a message`]),
    ...steps.flatMap((step) => (step === 'shot' || step === 'both' ? ['shot'] : step === 'blurred' ? [step] : [])),
  ]);
  return new Set(shown).size;
}

/** Plays the turns, and judges what came of them. */
export async function expectToGoOn(talk: Talk, endpoints: readonly [Endpoint, Endpoint], turns: readonly Turn[]) {
  const conversation = await talk.converse(endpoints, turns);
  expect(conversation.ends).toEqual(conversation.wanted);
  expect(refusedAgain(conversation, picturesOf(turns))).toEqual([]);
  expect(conversation.requests.flatMap(({ violations }) => violations)).toEqual([]);
  return conversation;
}
