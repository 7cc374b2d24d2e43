import type { z } from '@hono/zod-openapi';
import { expectTypeOf, test } from 'vitest';
import type { overridesBody } from '../../src/api/agent-overrides.ts';
import type { agentBody, rejectedBody } from '../../src/api/agents.ts';
import type { entryBody } from '../../src/api/audit.ts';
import type { blobBody } from '../../src/api/blobs.ts';
import type { cancelledSession } from '../../src/api/cancel.ts';
import type { contextBody } from '../../src/api/context.ts';
import type { allErrorGroupsBody, errorGroupsBody } from '../../src/api/errors.ts';
import type { eventBody } from '../../src/api/event-bodies.ts';
import type { readinessBody } from '../../src/api/health.ts';
import type { waitingCallBody } from '../../src/api/inbox.ts';
import type { keyBody } from '../../src/api/keys.ts';
import type { callerBody } from '../../src/api/login.ts';
import type { messageBody } from '../../src/api/message-body.ts';
import type { acceptedBody } from '../../src/api/messages.ts';
import type { operatorRunBody } from '../../src/api/operator.ts';
import type { ProblemCode } from '../../src/api/problems.ts';
import type { waitingBody } from '../../src/api/queue.ts';
import type { repinnedBody } from '../../src/api/repin.ts';
import type { resumedBody } from '../../src/api/resume.ts';
import type { runBody } from '../../src/api/run-body.ts';
import type { fireBody, scheduleBody } from '../../src/api/schedules.ts';
import type { listedSessionBody, sessionBody } from '../../src/api/session-body.ts';
import type { stepRequestBody } from '../../src/api/step-request.ts';
import type { stepPageBody } from '../../src/api/steps.ts';
import type { answerBody, answeredBody } from '../../src/api/tool-calls.ts';
import type { usageReportBody } from '../../src/api/usage.ts';
import type { deliveryBody, webhookBody } from '../../src/api/webhook-body.ts';
import type { fleetBody } from '../../src/api/workers.ts';
import type * as api from '../../src/client/api.ts';
import type { BatonError, ClientErrorCode, ErrorCode } from '../../src/client/baton-error.ts';
import type * as lists from '../../src/client/console.ts';
import type * as messages from '../../src/client/messages.ts';
import type * as schedules from '../../src/client/schedules.ts';
import type * as events from '../../src/client/session-events.ts';
import type * as steps from '../../src/client/steps.ts';
import type * as hooks from '../../src/client/webhooks.ts';
import type { EVENT_SCHEMAS, LIVE_SCHEMAS } from '../../src/domain/run/events.ts';
import type { runLimitsSchema } from '../../src/domain/run/run-limits.ts';
import type { sessionSnapshotSchema } from '../../src/domain/run/session-snapshot.ts';
import type { FilePart, Json, Part, ToolPart } from '../../src/domain/transcript/message.ts';
import type { maintenanceBody } from '../../src/http/routes/context.ts';

/**
 * Normal form of a type, without differences in spelling: no `readonly`, an optional field becomes nullable, any JSON
 * value becomes `'json'`.
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

/** The compiler compares them in `npm run lint`: the client's types must equal the service's answers. */
test('the types of the client are those of the service', () => {
  expectTypeOf<Plain<api.Session>>().toEqualTypeOf<Body<typeof sessionBody>>();
  expectTypeOf<Plain<api.ListedSession>>().toEqualTypeOf<Body<typeof listedSessionBody>>();
  expectTypeOf<Plain<lists.WaitingCall>>().toEqualTypeOf<Body<typeof waitingCallBody>>();
  expectTypeOf<Plain<lists.ErrorGroups>>().toEqualTypeOf<Body<typeof errorGroupsBody>>();
  expectTypeOf<Plain<lists.AllErrorGroups>>().toEqualTypeOf<Body<typeof allErrorGroupsBody>>();
  expectTypeOf<Plain<lists.UsageReport>>().toEqualTypeOf<Body<typeof usageReportBody>>();
  expectTypeOf<Plain<lists.OperatorRun>>().toEqualTypeOf<Body<typeof operatorRunBody>>();
  expectTypeOf<Plain<lists.Fleet>>().toEqualTypeOf<Body<typeof fleetBody>>();
  expectTypeOf<Plain<steps.StepRequest>>().toEqualTypeOf<Body<typeof stepRequestBody>>();
  expectTypeOf<Plain<steps.StepPage>>().toEqualTypeOf<Body<typeof stepPageBody>>();
  expectTypeOf<Plain<schedules.Schedule>>().toEqualTypeOf<Body<typeof scheduleBody>>();
  expectTypeOf<Plain<schedules.ScheduleFire>>().toEqualTypeOf<Body<typeof fireBody>>();
  expectTypeOf<Plain<hooks.Webhook>>().toEqualTypeOf<Body<typeof webhookBody>>();
  expectTypeOf<Plain<hooks.WebhookDelivery>>().toEqualTypeOf<Body<typeof deliveryBody>>();
  expectTypeOf<Plain<api.Run>>().toEqualTypeOf<Body<typeof runBody>>();
  type Served = z.infer<typeof messageBody>;
  expectTypeOf<Plain<Omit<messages.Message, 'parts'>>>().toEqualTypeOf<Plain<Omit<Served, 'parts'>>>();
  // Only tool parts have an id.
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
  expectTypeOf<Plain<api.Caller>>().toEqualTypeOf<Body<typeof callerBody>>();
  expectTypeOf<Plain<api.RejectedAgentFile>>().toEqualTypeOf<Body<typeof rejectedBody>>();
  expectTypeOf<Plain<api.Agent>>().toEqualTypeOf<Body<typeof agentBody>>();
  expectTypeOf<Plain<api.StoredBlob>>().toEqualTypeOf<Body<typeof blobBody>>();
  expectTypeOf<Plain<api.RunLimits>>().toEqualTypeOf<Body<typeof runLimitsSchema>>();
  expectTypeOf<Plain<api.ApiKey>>().toEqualTypeOf<Body<typeof keyBody>>();
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
