import type { ModelSettings } from '../domain/model/model-settings.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import type { RunLimits } from '../domain/run/run-limits.ts';
import type { Agent } from './agent.ts';

/** A session's deviations from its agent. Tools, servers, approvals and environment stay the agent's. */
export type AgentOverrides = Readonly<{
  model?: string | undefined;
  /** Appended to the agent's own. */
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  output?: OutputFormat | undefined;
  limits?: (RunLimits & Readonly<{ finalAnswer?: boolean | undefined }>) | undefined;
}>;

/** Overrides setting by setting and limit by limit. A model that is chosen has no fallbacks: they are the agent's own. */
export function withOverrides(agent: Agent, overrides: AgentOverrides): Agent {
  const { model = agent.model, instructions, settings, limits, output } = overrides;
  const { fallbacks, ...rest } = agent;
  return {
    ...rest,
    ...(fallbacks !== undefined && model === agent.model && { fallbacks }),
    model,
    ...(instructions !== undefined && { instructions: joined(agent.instructions, instructions) }),
    ...(output !== undefined && { output }),
    settings: { ...agent.settings, ...settings },
    limits: { ...agent.limits, ...limits },
  };
}

const joined = (...texts: readonly string[]): string => texts.filter((text) => text.trim() !== '').join('\n\n');
