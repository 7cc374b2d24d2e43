import type { ModelSettings } from '../domain/model/model-settings.ts';
import type { RunLimits } from '../domain/run/run-limits.ts';
import type { Agent } from './agent.ts';

/**
 * What a session has different from its agent. Nothing of it reaches further than the agent does: tools, servers,
 * approvals and what they need of the environment are the agent's alone.
 */
export type AgentOverrides = Readonly<{
  model?: string | undefined;
  /** Said after the agent's own. */
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  limits?: (RunLimits & Readonly<{ finalAnswer?: boolean | undefined }>) | undefined;
}>;

/** The agent as the session is to have it: what is left out is the agent's, setting by setting and limit by limit. */
export function withOverrides(agent: Agent, overrides: AgentOverrides): Agent {
  const { model = agent.model, instructions, settings, limits } = overrides;
  return {
    ...agent,
    model,
    ...(instructions !== undefined && { instructions: joined(agent.instructions, instructions) }),
    settings: { ...agent.settings, ...settings },
    limits: { ...agent.limits, ...limits },
  };
}

const joined = (...texts: readonly string[]): string => texts.filter((text) => text.trim() !== '').join('\n\n');
