import { type OpenAPIHono, z } from '@hono/zod-openapi';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { ACTION_KINDS } from '../domain/transcript/required-action.ts';
import { TEST_EVENT, WEBHOOK_EVENTS } from '../domain/webhooks/webhook.ts';
import { costBody, jsonValueBody, timeBody } from './responses.ts';
import { questionsBody } from './run-body.ts';

/** The body of a delivery, as the SQL functions baton_delivery_body and baton_delivery_data write it. */
export const toldWebhookBody = z
  .object({
    id: z.string().openapi({ description: 'Id of the delivery, equal for every attempt.' }),
    type: z.enum(WEBHOOK_EVENTS),
    timestamp: timeBody,
    data: z.object({
      sessionId: z.string(),
      key: z.string().nullable().openapi({ description: 'Your own name for the session.' }),
      title: z.string().nullable().openapi({ description: 'Title of the session as it was set.' }),
      name: z.string().openapi({
        description: 'Name of the session for people: the title, else its first words, its key or its agent.',
      }),
      agent: z.string(),
      metadata: z.record(z.string(), z.string()),
      run: z.object({
        id: z.string(),
        status: z.enum(RUN_STATUSES),
        reason: z.string().nullable().openapi({ description: 'Reason why the run ended `incomplete`.' }),
        steps: z.int(),
        costUsd: costBody,
        error: z.object({ code: z.string(), message: z.string() }).nullable(),
      }),
      output: z
        .string()
        .nullable()
        .openapi({ description: 'The text of the last answer, of at most 32 768 characters.' }),
      value: jsonValueBody.openapi({
        description: 'The result of a run with a schema; null where there is none, and beyond 32 768 characters.',
      }),
      isOutputCut: z
        .boolean()
        .openapi({ description: 'True: the output was cut. `GET /v1/runs/{id}` returns all of it.' }),
      requiredActions: z.array(
        z.object({
          id: z.string(),
          kind: z.enum(ACTION_KINDS),
          toolName: z.string(),
          args: jsonValueBody.openapi({ description: 'Arguments of the call. null beyond 4 096 characters.' }),
          questions: questionsBody
            .nullable()
            .openapi({ description: 'Questions of a tool that has begun. null: none, or beyond 4 096 characters.' }),
        }),
      ),
    }),
  })
  .openapi('ToldWebhook');

const headers = z.object({
  'webhook-id': z.string(),
  'webhook-timestamp': z.string().openapi({ description: 'Time of the attempt, in seconds since the Unix epoch.' }),
  'webhook-signature': z.string().openapi({ description: 'Signature by Standard Webhooks: `v1,` and Base64.' }),
  'baton-attempt': z.string().openapi({ description: 'Number of the attempt, from 1.' }),
});

const responses = {
  204: {
    description:
      'Accepted, as with any other 2xx. Any other answer, or none within 10 seconds, is followed by another attempt.',
  },
  410: { description: 'The webhook is disabled.' },
};

const SUMMARIES: Readonly<Record<(typeof WEBHOOK_EVENTS)[number], string>> = {
  'run:completed': 'A run has completed',
  'run:failed': 'A run has failed',
  'run:cancelled': 'A run was cancelled',
  'run:incomplete': 'A run was ended by a limit, or by an answer that does not fit its schema',
  'run:requires-action': 'A run waits for a person or a client',
};

/** Describes what webhooks are sent, in the section `webhooks` of the OpenAPI document. */
export function describeWebhooks({ openAPIRegistry: registry }: Pick<OpenAPIHono, 'openAPIRegistry'>): void {
  for (const type of WEBHOOK_EVENTS) {
    const schema = toldWebhookBody.extend({ type: z.literal(type) });
    registry.registerWebhook({
      method: 'post',
      path: type,
      operationId: `told${type.slice(4).replace(/(?:^|-)(\w)/g, (_, first: string) => first.toUpperCase())}`,
      tags: ['webhooks'],
      summary: SUMMARIES[type],
      request: { headers, body: { required: true, content: { 'application/json': { schema } } } },
      responses,
    });
  }
  registry.registerWebhook({
    method: 'post',
    path: TEST_EVENT,
    operationId: 'toldTest',
    tags: ['webhooks'],
    summary: 'A test delivery was requested',
    request: { headers },
    responses,
  });
}
