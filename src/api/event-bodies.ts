import { z } from '@hono/zod-openapi';
import { EVENT_SCHEMAS, LIVE_SCHEMAS, type SessionEvent } from '../domain/run/events.ts';
import { sessionSnapshotSchema } from '../domain/run/session-snapshot.ts';
import { EVENT_MEANINGS, LIVE_MEANINGS } from './event-meanings.ts';
import { type JsonSchema, toJsonSchema } from './json-schema.ts';

const objectOf = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
});

/** One schema per event type, told apart by `type`. */
function eventsOf<Type extends string>(
  schemas: Readonly<Record<Type, z.ZodType>>,
  meanings: Readonly<Record<Type, string>>,
  envelope: Record<string, JsonSchema>,
): JsonSchema {
  const oneOf = Object.entries<z.ZodType>(schemas).map(([type, data]) => ({
    title: type,
    description: meanings[type as Type],
    ...objectOf({ type: { const: type }, data: toJsonSchema(data), ...envelope }),
  }));
  return { oneOf };
}

const DURABLE = {
  seq: { type: 'integer', minimum: 1 },
  runId: { type: ['string', 'null'] },
  createdAt: { type: 'string', format: 'date-time' },
};

export const eventBody = z.custom<SessionEvent>().openapi('SessionEvent', {
  type: 'object',
  description: 'An event of the log of a session.',
  ...eventsOf(EVENT_SCHEMAS, EVENT_MEANINGS, DURABLE),
});

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** The stream of a session. OpenAPI 3.1 cannot describe server-sent events, so this is the `data` of each. */
export const streamBody = z.custom<string>().openapi({
  type: 'object',
  description: 'Server-sent events; the schema is that of the `data` of each.',
  oneOf: [reference('SessionSnapshot'), reference('SessionEvent'), reference('LiveEvent')],
});

/** Schemas of the stream besides durable events, by their names in the API document. */
export const STREAM_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  LiveEvent: {
    description: 'A preview in the stream of a session; it is not stored.',
    ...eventsOf(LIVE_SCHEMAS, LIVE_MEANINGS, {}),
  },
  SessionSnapshot: {
    description: 'The data of `session:snapshot`, the first event of a stream.',
    ...toJsonSchema(sessionSnapshotSchema),
  },
};
