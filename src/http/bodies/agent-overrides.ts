import type { AgentOverrides } from '../../agents/overrides.ts';
import { settingProblems } from '../../domain/model/model-settings.ts';
import type { ModelPort } from '../../model/model-port.ts';
import { ProblemError } from './problem.ts';

/**
 * Refuses a model whose provider is not configured and a setting that the model's protocol lacks, before the first step
 * fails by it. The agent's own settings are dropped where another model does not take them.
 * @throws BatonError `model_unavailable`; ProblemError `invalid_request` that names the settings
 */
export function checkModel(models: ModelPort, model: string, overrides: AgentOverrides | undefined): void {
  const { protocol } = models(model);
  const problems = settingProblems(protocol, model, overrides?.settings ?? {});
  const errors = problems.map(({ name, message }) => ({ path: `overrides.settings.${name}`, message }));
  const [first] = errors;
  if (first === undefined) return;
  throw new ProblemError('invalid_request', `Invalid body: ${first.path}: ${first.message}`, { errors });
}
