import { z } from '@hono/zod-openapi';
import { ERROR_CODES, providerFailureSchema } from '../domain/errors.ts';
import { CHILD_MODES, CHILD_STATUSES } from '../domain/run/child.ts';
import { RUN_KINDS, RUN_STATUSES } from '../domain/run/run.ts';
import { runOutputSchema } from '../domain/run/run-output.ts';
import { ASKED_KINDS, requiredActionSchema } from '../domain/transcript/required-action.ts';
import { outputFormatBody } from './output-format.ts';
import { costBody, jsonValueBody, orNull, timeBody, usageBody } from './responses.ts';

/** Why a run or a compaction failed. */
export const errorBody = z
  .strictObject({
    code: z.enum(ERROR_CODES),
    message: z.string(),
    provider: z
      .strictObject(providerFailureSchema.shape)
      .optional()
      .openapi({ description: 'What the model provider said, without the prompt and credentials.' }),
  })
  .openapi('RunError');

/** Children that a body shows. `GET /v1/sessions?parent=` lists all. */
export const MAX_CHILDREN = 100;

// Built from the fields, because the domain made its schema before Hono's zod added `openapi`. `args` is replaced,
// because zod writes any JSON value as a recursive definition.
const requiredActionBody = z
  .strictObject({ ...requiredActionSchema.shape, kind: z.enum(ASKED_KINDS), args: jsonValueBody })
  .openapi('RequiredAction', {
    description:
      '`approval`: approve or deny. `output`: run it and give the output. `unknown_outcome`: it is not known whether the call took effect; approve runs it again, deny tells the model, an output is taken as its result.',
  });

const outputBody = z.strictObject({ ...runOutputSchema.shape, value: z.unknown().optional() }).openapi('RunOutput', {
  description:
    'The text of its last whole answer, and the files that the model made in it. `value`: the result, if it was asked for one that fits a schema.',
});

const parentBody = z
  .object({ sessionId: z.string(), runId: z.string(), step: z.int(), callId: z.string() })
  .openapi('RunParent', { description: 'The call of another session that began the run, and the step of that call.' });

export const childBody = z
  .object({
    callId: z.string().openapi({ description: 'The call of this run that began it, or went on with it.' }),
    agent: z.string(),
    mode: z.enum(CHILD_MODES),
    status: z.enum(CHILD_STATUSES).openapi({
      description:
        '`waiting`: not begun yet. `requires_action`: a call of it waits for a person or a client. `refused`: it was not begun, and its call says why.',
    }),
    sessionId: z.string().nullable().openapi({ description: 'Null: it is not begun, or is deleted.' }),
    runId: z.string().nullable(),
    steps: z.int().nullable().openapi({ description: 'With those of its own children. Null: it has not ended.' }),
    tokens: z.int().nullable(),
    costUsd: costBody,
    createdAt: timeBody,
    endedAt: timeBody.nullable(),
  })
  .openapi('RunChild');

export const runBody = z
  .object({
    id: z.string(),
    sessionId: z.string(),
    kind: z.enum(RUN_KINDS),
    status: z.enum(RUN_STATUSES),
    reason: z.string().nullable().openapi({ description: 'Why the run ended `incomplete`.' }),
    steps: z.int().openapi({ description: 'Model steps that were completed.' }),
    maxSteps: z.int().nullable(),
    maxTokens: z.int().nullable(),
    maxCostUsd: z.number().nullable(),
    deadlineAt: timeBody.nullable(),
    requiredActions: z
      .array(requiredActionBody)
      .openapi({ description: 'What the run waits for: it goes on when each of these calls is answered.' }),
    approvalExpiresAt: timeBody.nullable().openapi({ description: 'Until then they can be answered; null: for ever.' }),
    error: orNull(errorBody),
    output: orNull(outputBody).optional().openapi({
      description: 'Null until the run has ended, and where it has no whole answer. Lists leave it out.',
    }),
    outputFormat: orNull(outputFormatBody).optional().openapi({
      description: 'The result that it is asked for; null: none. Lists leave it out.',
    }),
    parent: orNull(parentBody),
    childCount: z.int().openapi({ description: 'Calls of it that gave a task to another agent.' }),
    children: z
      .array(childBody)
      .max(MAX_CHILDREN)
      .optional()
      .openapi({ description: 'The last 100 of these, in their order. Lists leave it out.' }),
    usage: usageBody,
    costUsd: costBody,
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    cancelRequestedAt: timeBody.nullable(),
    traceId: z.string().nullable().openapi({ description: 'Of the trace that has its spans; null: spans are off.' }),
  })
  .openapi('Run');
