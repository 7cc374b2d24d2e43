import { z } from '@hono/zod-openapi';
import { EVENT_SCHEMAS, LIVE_SCHEMAS, type SessionEvent } from '../../domain/run/events.ts';
import { sessionSnapshotSchema } from '../../events/stream-item.ts';
import { type JsonSchema, toJsonSchema } from './json-schema.ts';

const objectOf = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
});

/** One schema for each type of event, told apart by `type`. */
function eventsOf(schemas: Readonly<Record<string, z.ZodType>>, envelope: Record<string, JsonSchema>): JsonSchema {
  const oneOf = Object.entries(schemas).map(([type, data]) => ({
    title: type,
    ...objectOf({ type: { const: type }, data: toJsonSchema(data), ...envelope }),
  }));
  return { oneOf };
}

const DURABLE = {
  seq: { type: 'integer', minimum: 1 },
  runId: { type: ['string', 'null'] },
  createdAt: { type: 'string', format: 'date-time' },
};

/** A durable event of a session. */
export const eventBody = z.custom<SessionEvent>().openapi('SessionEvent', {
  type: 'object',
  description: 'An event of the log of a session.',
  ...eventsOf(EVENT_SCHEMAS, DURABLE),
});

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** The stream of a session: OpenAPI 3.1 has no words for server-sent events, so this is the `data` of each. */
export const streamBody = z.custom<string>().openapi({
  type: 'object',
  description: 'Server-sent events; the schema is that of the `data` of each.',
  oneOf: [reference('SessionSnapshot'), reference('SessionEvent'), reference('LiveEvent')],
});

/** What the stream of a session has beside its durable events, by the name under which it is documented. */
export const STREAM_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  LiveEvent: { description: 'A preview in the stream of a session; it is not stored.', ...eventsOf(LIVE_SCHEMAS, {}) },
  SessionSnapshot: {
    description: 'The data of `session:snapshot`, the first event of a stream.',
    ...toJsonSchema(sessionSnapshotSchema),
  },
};
