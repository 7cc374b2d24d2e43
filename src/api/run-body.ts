import { z } from '@hono/zod-openapi';
import { ERROR_CODES, providerFailureSchema } from '../domain/errors.ts';
import { CHILD_MODES, CHILD_STATUSES } from '../domain/run/child.ts';
import { RUN_KINDS, RUN_STATUSES, RUN_TRIGGERS } from '../domain/run/run.ts';
import { runOutputSchema } from '../domain/run/run-output.ts';
import { ASKED_KINDS, requiredActionSchema } from '../domain/transcript/required-action.ts';
import { outputFormatBody } from './output-format.ts';
import { costBody, jsonValueBody, orNull, timeBody, usageBody } from './responses.ts';
import { nameField } from './session-body.ts';

/** Why a run or a compaction failed. */
export const errorBody = z
  .strictObject({
    code: z.enum(ERROR_CODES),
    message: z.string(),
    provider: z
      .strictObject(providerFailureSchema.shape)
      .optional()
      .openapi({ description: 'Words of the model provider, without the prompt and credentials.' }),
  })
  .openapi('RunError');

/** Children that a body shows. `GET /v1/sessions?parent=` lists all. */
export const MAX_CHILDREN = 100;

export const questionsBody = z
  .array(
    z
      .strictObject({
        key: z.string(),
        message: z.string().openapi({ description: 'Words of the tool for the person who answers.' }),
        schema: z
          .record(z.string(), z.unknown())
          .optional()
          .openapi({ description: 'Form to fill in, as a JSON Schema of an object.' }),
        url: z.string().optional().openapi({ description: 'Page that the person opens, in place of a form.' }),
      })
      .openapi('CallQuestion'),
  )
  .openapi({
    description:
      'Questions of a tool that has begun. The output of the answer is the filled form; with several questions it is an object with one form by each key.',
  });

// Built from the fields, because the domain made its schema before Hono's zod added `openapi`. `args` is replaced,
// because zod writes any JSON value as a recursive definition.
const requiredActionBody = z
  .strictObject({
    ...requiredActionSchema.shape,
    kind: z.enum(ASKED_KINDS),
    args: jsonValueBody,
    questions: questionsBody.optional(),
  })
  .openapi('RequiredAction', {
    description:
      '`approval`: approve or deny. `output`: run it and give the output. `unknown_outcome`: it is not known whether the call took effect; approve runs it again, deny tells the model, an output is taken as its result. `input`: the tool has begun and asks the `questions`; give the filled form as the output, or deny.',
  });

const outputBody = z.strictObject({ ...runOutputSchema.shape, value: z.unknown().optional() }).openapi('RunOutput', {
  description:
    'Text of the last whole answer of the run, and the files that the model made in it. `value`: the result of a run with an output schema.',
});

const parentBody = z
  .object({ sessionId: z.string(), runId: z.string(), step: z.int(), callId: z.string() })
  .openapi('RunParent', { description: 'The call of another session that began the run, and the step of that call.' });

export const childBody = z
  .object({
    callId: z.string().openapi({ description: 'The call of the run that began the child, or went on with it.' }),
    agent: z.string(),
    mode: z.enum(CHILD_MODES),
    status: z.enum(CHILD_STATUSES).openapi({
      description:
        '`waiting`: the child has not begun. `requires_action`: one of its calls waits for a person or a client. `refused`: it was never begun, and the call in the parent says why.',
    }),
    sessionId: z
      .string()
      .nullable()
      .openapi({ description: 'Session of the child. null: it has not begun, or was deleted.' }),
    runId: z.string().nullable(),
    steps: z
      .int()
      .nullable()
      .openapi({ description: 'Steps of the child and of its own children. null: it has not ended.' }),
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
    sessionName: nameField,
    agent: z.string().openapi({ description: 'Agent of the session.' }),
    kind: z.enum(RUN_KINDS),
    trigger: z.enum(RUN_TRIGGERS).openapi({
      description:
        'Cause of the run: a `message` of a caller, of a `schedule` or of a `hook`; the call of a `parent`; a `notice` of the service that a child in the background has ended; a `resume` without a message; or `maintenance`, a compaction or prune.',
    }),
    status: z.enum(RUN_STATUSES),
    reason: z.string().nullable().openapi({ description: 'Reason why the run ended `incomplete`.' }),
    steps: z.int().openapi({ description: 'Model steps that were completed.' }),
    maxSteps: z
      .int()
      .nullable()
      .openapi({ description: 'Most steps. null: a promised run, or a compaction or prune.' }),
    maxTokens: z.int().nullable(),
    maxCostUsd: z.number().nullable(),
    deadlineAt: timeBody.nullable(),
    requiredActions: z
      .array(requiredActionBody)
      .openapi({ description: 'Calls that the run waits for. It goes on when each of them is answered.' }),
    approvalExpiresAt: timeBody
      .nullable()
      .openapi({ description: 'Time until which the calls can be answered. null: for ever.' }),
    error: orNull(errorBody),
    output: orNull(outputBody).optional().openapi({
      description:
        'Output of the run. null until the run has ended, and if it has no whole answer. Lists leave it out.',
    }),
    outputFormat: orNull(outputFormatBody).optional().openapi({
      description: 'Output schema of the run. null: none. Lists leave it out.',
    }),
    parent: orNull(parentBody),
    childCount: z.int().openapi({ description: 'Calls of the run that gave a task to another agent.' }),
    children: z
      .array(childBody)
      .max(MAX_CHILDREN)
      .optional()
      .openapi({ description: 'The last 100 children of the run, in their order. Lists leave them out.' }),
    usage: usageBody,
    costUsd: costBody,
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    cancelRequestedAt: timeBody.nullable(),
    traceId: z
      .string()
      .nullable()
      .openapi({ description: 'Id of the trace with the spans of the run. null: spans are off.' }),
  })
  .openapi('Run');
