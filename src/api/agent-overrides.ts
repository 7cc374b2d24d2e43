import { z } from '@hono/zod-openapi';
import { modelSettingsSchema } from '../domain/model/model-settings.ts';
import { runLimitsSchema } from '../domain/run/run-limits.ts';
import { textField } from './fields.ts';
import { outputFormatBody } from './output-format.ts';

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
      'Differences of the session from its agent: another model, instructions after the agent’s own, the output schema of its runs, and single settings and limits. Tools and approvals are the agent’s.',
  });
