import { BatonError } from '../domain/errors.ts';
import { type ModelSettings, settingProblems } from '../domain/model/model-settings.ts';
import type { ModelPort, ResolvedModel } from './model-port.ts';

/**
 * Checks, when an agent is loaded, that its model's protocol has its settings. A model whose provider is not configured
 * is not checked.
 * @throws BatonError `config_invalid` whose message begins with the key
 */
export function checkSettings(agent: Readonly<{ model: string; settings: ModelSettings }>, models: ModelPort): void {
  const resolved = resolve(agent.model, models);
  if (resolved === null) return;
  const problems = settingProblems(resolved.protocol, agent.model, agent.settings);
  if (problems.length === 0) return;
  const message = problems.map(({ name, message: what }) => `settings.${name}: ${what}`).join('; ');
  throw new BatonError('config_invalid', message);
}

function resolve(model: string, models: ModelPort): ResolvedModel | null {
  try {
    return models(model);
  } catch (error) {
    if (error instanceof BatonError && error.code === 'model_unavailable') return null;
    throw error;
  }
}
