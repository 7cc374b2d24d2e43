import type { z } from '@hono/zod-openapi';
import { expectTypeOf, test } from 'vitest';
import type * as api from '../../src/client/api.ts';
import type { BatonError, ClientErrorCode, ErrorCode } from '../../src/client/baton-error.ts';
import type * as messages from '../../src/client/messages.ts';
import type * as events from '../../src/client/session-events.ts';
import type { EVENT_SCHEMAS, LIVE_SCHEMAS } from '../../src/domain/run/events.ts';
import type { runLimitsSchema } from '../../src/domain/run/run-limits.ts';
import type { FilePart, Json, Part, ToolPart } from '../../src/domain/transcript/message.ts';
import type { sessionSnapshotSchema } from '../../src/events/stream-item.ts';
import type { overridesBody } from '../../src/http/bodies/agent-overrides.ts';
import type { eventBody } from '../../src/http/bodies/event-bodies.ts';
import type { messageBody } from '../../src/http/bodies/message-body.ts';
import type { ProblemCode } from '../../src/http/bodies/problem.ts';
import type { runBody } from '../../src/http/bodies/run-body.ts';
import type { sessionBody } from '../../src/http/bodies/session-body.ts';
import type { agentBody } from '../../src/http/routes/agents.ts';
import type { entryBody } from '../../src/http/routes/audit.ts';
import type { blobBody } from '../../src/http/routes/blobs.ts';
import type { cancelledSession } from '../../src/http/routes/cancel.ts';
import type { contextBody, maintenanceBody } from '../../src/http/routes/context.ts';
import type { readinessBody } from '../../src/http/routes/health.ts';
import type { acceptedBody } from '../../src/http/routes/messages.ts';
import type { waitingBody } from '../../src/http/routes/queue.ts';
import type { repinnedBody } from '../../src/http/routes/repin.ts';
import type { resumedBody } from '../../src/http/routes/resume.ts';
import type { answerBody, answeredBody } from '../../src/http/routes/tool-calls.ts';

/**
 * A type without what says the same in another way: `readonly` goes, a field that may be left out becomes one that may
 * be null-like, whatever takes any JSON value is `'json'`.
 */
type Plain<T> = [Json] extends [T]
  ? 'json'
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? {
          -readonly [Key in keyof T]-?: [Json] extends [T[Key]]
            ? 'json'
            : undefined extends T[Key]
              ? Plain<Exclude<T[Key], undefined>> | 'left out'
              : Plain<T[Key]>;
        }
      : T;

type Body<Schema extends z.ZodType> = Plain<z.infer<Schema>>;

/** These are compared by the compiler: `npm run lint`. What the service answers is what the client's types say. */
test('the types of the client are those of the service', () => {
  expectTypeOf<Plain<api.Session>>().toEqualTypeOf<Body<typeof sessionBody>>();
  expectTypeOf<Plain<api.Run>>().toEqualTypeOf<Body<typeof runBody>>();
  type Served = z.infer<typeof messageBody>;
  expectTypeOf<Plain<Omit<messages.Message, 'parts'>>>().toEqualTypeOf<Plain<Omit<Served, 'parts'>>>();
  // Only the parts of tools have an id.
  expectTypeOf<Plain<Omit<messages.ToolPart, 'id' | keyof messages.PartHistory>>>().toEqualTypeOf<Plain<ToolPart>>();
  type Marked = Readonly<{ type: 'tool' | 'file' }>;
  expectTypeOf<Plain<Exclude<messages.Part, Marked>>>().toEqualTypeOf<Plain<Exclude<Part, Marked>>>();
  expectTypeOf<Plain<messages.FilePart>>().toEqualTypeOf<Plain<FilePart>>();
  type History = Pick<Served['parts'][number], keyof messages.PartHistory>;
  expectTypeOf<Plain<messages.PartHistory>>().toEqualTypeOf<Plain<History>>();
  expectTypeOf<Plain<messages.SentMessage>>().toEqualTypeOf<Body<typeof acceptedBody>>();
  expectTypeOf<Plain<messages.WaitingMessage>>().toEqualTypeOf<Body<typeof waitingBody>>();
  expectTypeOf<Plain<api.Readiness>>().toEqualTypeOf<Body<typeof readinessBody>>();
  expectTypeOf<Plain<api.ContextMeter>>().toEqualTypeOf<Body<typeof contextBody>>();
  expectTypeOf<Plain<api.Maintenance>>().toEqualTypeOf<Body<typeof maintenanceBody>>();
  expectTypeOf<Plain<api.CancelledSession>>().toEqualTypeOf<Body<typeof cancelledSession>>();
  expectTypeOf<Plain<api.RepinnedTools>>().toEqualTypeOf<Body<typeof repinnedBody>>();
  expectTypeOf<Plain<api.ResumedSession>>().toEqualTypeOf<Body<typeof resumedBody>>();
  expectTypeOf<Plain<api.AnsweredToolCall>>().toEqualTypeOf<Body<typeof answeredBody>>();
  expectTypeOf<Plain<api.Agent>>().toEqualTypeOf<Body<typeof agentBody>>();
  expectTypeOf<Plain<api.StoredBlob>>().toEqualTypeOf<Body<typeof blobBody>>();
  expectTypeOf<Plain<api.RunLimits>>().toEqualTypeOf<Body<typeof runLimitsSchema>>();
  expectTypeOf<Plain<api.AgentOverrides>>().toEqualTypeOf<Body<typeof overridesBody>>();
  expectTypeOf<Body<typeof entryBody>>().toExtend<Plain<api.AuditEntry>>();
  expectTypeOf<Plain<z.infer<typeof eventBody>>['seq']>().toEqualTypeOf<number>();
  expectTypeOf<api.ToolCallAnswer>().toExtend<z.input<typeof answerBody>>();
});

test('so are the events', () => {
  type Served = { [Type in keyof typeof EVENT_SCHEMAS]: z.infer<(typeof EVENT_SCHEMAS)[Type]> };
  expectTypeOf<Plain<events.EventData>>().toEqualTypeOf<Plain<Served>>();
  expectTypeOf<Plain<events.SessionSnapshot>>().toEqualTypeOf<Body<typeof sessionSnapshotSchema>>();
  expectTypeOf<Plain<events.Chunk>>().toEqualTypeOf<Body<(typeof LIVE_SCHEMAS)['llm:chunk']>>();
  expectTypeOf<events.LiveEvent['type']>().toEqualTypeOf<keyof typeof LIVE_SCHEMAS>();
});

test('and the codes of errors', () => {
  expectTypeOf<ErrorCode>().toEqualTypeOf<ProblemCode>();
  expectTypeOf<ClientErrorCode>().toExtend<BatonError['code']>();
});
