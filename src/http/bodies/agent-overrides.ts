import { z } from '@hono/zod-openapi';
import type { AgentOverrides } from '../../agents/overrides.ts';
import { modelSettingsSchema, settingProblems } from '../../domain/model/model-settings.ts';
import { runLimitsSchema } from '../../domain/run/run-limits.ts';
import type { ModelPort } from '../../model/model-port.ts';
import { textField } from './fields.ts';
import { outputFormatBody } from './output-format.ts';
import { ProblemError } from './problem.ts';

export const modelField = textField(200).regex(/^[a-z0-9-]+\/.+$/, 'provider/model, for example openai/gpt-5.4');

const MAX_INSTRUCTIONS_CHARS = 50_000;
const MAX_STOP_SEQUENCE_CHARS = 200;

/** The fields of its agent that a session may override. */
export const overridesBody = z
  .strictObject({
    model: modelField.optional(),
    instructions: textField(MAX_INSTRUCTIONS_CHARS).min(1).optional(),
    settings: z
      .strictObject({
        ...modelSettingsSchema.shape,
        stopSequences: z.array(textField(MAX_STOP_SEQUENCE_CHARS).min(1)).min(1).max(4).optional(),
      })
      .openapi('ModelSettings')
      .optional(),
    output: outputFormatBody.optional(),
    limits: z
      .strictObject({ ...runLimitsSchema.shape, finalAnswer: z.boolean().optional() })
      .openapi('AgentLimits')
      .optional(),
  })
  .openapi('AgentOverrides', {
    description:
      'What is different from the agent in this session: another model, instructions after its own, the result that its runs are asked for, and those of its settings and limits that are named. Tools and approvals are the agent’s.',
  });

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
