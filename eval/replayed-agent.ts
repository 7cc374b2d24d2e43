import { type ProfileName, showsThoughts, simulatedProvider } from '../simulator/profiles.ts';
import type { Recording } from '../simulator/recording.ts';
import { type Agent, agentSchema } from '../src/agents/agent.ts';
import { usableOf } from '../src/domain/context/limits/limits.ts';
import type { ModelOverride } from '../src/domain/context/limits/model-entry.ts';
import type { StrategyName } from '../src/domain/context/limits/policy.ts';
import { UNIT_PRICES } from './metrics/costs.ts';

/** Protocols that a replay can speak, and the service's provider for each. */
const PROVIDERS = { openai: 'simulated', anthropic: 'simulated-anthropic' } as const;

export const REPLAY_PROVIDERS = ['openai', 'anthropic'] as const satisfies (keyof typeof PROVIDERS)[];
export type ReplayProvider = (typeof REPLAY_PROVIDERS)[number];

export const RECORDED_TOOLS = 'recorded';

/** No recording fills it, so the context layer has nothing to do. */
const ENDLESS_WINDOW_TOKENS = 100_000_000;
/** The usual output limit of current models. */
const MAX_OUTPUT_TOKENS = 32_000;

export type ReplayedModel = Readonly<{
  /** The context window in tokens. Default: one that no recording fills. */
  window?: number | undefined;
  strategy?: StrategyName | undefined;
  provider?: ReplayProvider | undefined;
  /** The ways of the endpoint that answers. It has a protocol, and so takes the place of `provider`. */
  profile?: ProfileName | undefined;
}>;

function providerOf({ provider = 'openai', profile }: ReplayedModel): string {
  return profile === undefined ? PROVIDERS[provider] : simulatedProvider(profile);
}

/** The recording as an endpoint can tell it: some show no thoughts. */
export function toldBy(recording: Recording, { profile }: ReplayedModel): Recording {
  if (profile === undefined || showsThoughts(profile)) return recording;
  const entries = recording.entries.map((entry) => {
    if (entry.type !== 'step') return entry;
    const { reasoning: _, ...rest } = entry;
    return rest;
  });
  return { ...recording, entries };
}

export function replayedAgent(recording: Recording, modelId: string, replayed: ReplayedModel): Agent {
  const { strategy } = replayed;
  return agentSchema.parse({
    name: 'replay',
    model: `${providerOf(replayed)}/${modelId}`,
    instructions: recording.header.system ?? 'You are replayed.',
    tools: [RECORDED_TOOLS],
    limits: { maxSteps: 10_000 },
    ...(strategy !== undefined && { context: { compaction: { strategy } } }),
  });
}

export function replayedModel(modelId: string, replayed: ReplayedModel): ModelOverride {
  const { window = ENDLESS_WINDOW_TOKENS } = replayed;
  return {
    provider: providerOf(replayed),
    model: modelId,
    contextWindow: window,
    maxOutput: Math.min(MAX_OUTPUT_TOKENS, window),
    prices: { ...UNIT_PRICES, input: 1, request: 0 },
  };
}

export function usableTokens(agent: Agent, { contextWindow = 0, maxOutput = 0 }: ModelOverride): number {
  return usableOf({ contextWindow, maxOutput }, agent.context);
}
