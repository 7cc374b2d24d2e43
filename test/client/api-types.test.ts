import type { z } from '@hono/zod-openapi';
import { expectTypeOf, test } from 'vitest';
import type { eventBody } from '../../src/api/event-bodies.ts';
import type { messageBody } from '../../src/api/message-body.ts';
import type { ProblemCode } from '../../src/api/problems.ts';
import type { runBody } from '../../src/api/run-body.ts';
import type { fireBody, scheduleBody } from '../../src/api/schedules.ts';
import type { listedSessionBody } from '../../src/api/session-body.ts';
import type { stepPageBody } from '../../src/api/steps.ts';
import type { answerBody } from '../../src/api/tool-calls.ts';
import type { deliveryBody } from '../../src/api/webhook-body.ts';
import type { ToolCallAnswer } from '../../src/client/api.ts';
import type { BatonError, ClientErrorCode } from '../../src/client/baton-error.ts';
import type * as contract from '../../src/client/contract.ts';
import type * as parts from '../../src/client/parts.ts';
import type { LiveEvent } from '../../src/client/session-events.ts';
import type { EVENT_SCHEMAS, LIVE_SCHEMAS } from '../../src/domain/run/events.ts';
import type { sessionSnapshotSchema } from '../../src/domain/run/session-snapshot.ts';
import type { FilePart, Json, Part, ToolPart } from '../../src/domain/transcript/message.ts';

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

/** The compiler compares them in `npm run lint`. The types are generated, so a few bodies show that their generator is right. */
test('the types of the client are those of the service', () => {
  expectTypeOf<Plain<Omit<contract.ListedSession, 'overrides'>>>().toEqualTypeOf<
    Plain<Omit<z.infer<typeof listedSessionBody>, 'overrides'>>
  >();
  expectTypeOf<Plain<Omit<contract.Run, 'outputFormat'>>>().toEqualTypeOf<
    Plain<Omit<z.infer<typeof runBody>, 'outputFormat'>>
  >();
  expectTypeOf<Plain<contract.StepPage>>().toEqualTypeOf<Body<typeof stepPageBody>>();
  expectTypeOf<Plain<contract.Schedule>>().toEqualTypeOf<Body<typeof scheduleBody>>();
  expectTypeOf<Plain<contract.ScheduleFire>>().toEqualTypeOf<Body<typeof fireBody>>();
  expectTypeOf<Plain<contract.WebhookDelivery>>().toEqualTypeOf<Body<typeof deliveryBody>>();
  expectTypeOf<ToolCallAnswer>().toExtend<z.input<typeof answerBody>>();
});

test('so are the parts of messages, which are written by hand', () => {
  type Served = z.infer<typeof messageBody>;
  expectTypeOf<Plain<Omit<contract.Message, 'parts'>>>().toEqualTypeOf<Plain<Omit<Served, 'parts'>>>();
  // Only tool parts have an id.
  expectTypeOf<Plain<Omit<parts.ToolPart, 'id' | keyof parts.PartHistory>>>().toEqualTypeOf<Plain<ToolPart>>();
  type Marked = Readonly<{ type: 'tool' | 'file' }>;
  expectTypeOf<Plain<Exclude<parts.Part, Marked>>>().toEqualTypeOf<Plain<Exclude<Part, Marked>>>();
  expectTypeOf<Plain<parts.FilePart>>().toEqualTypeOf<Plain<FilePart>>();
  type History = Pick<Served['parts'][number], keyof parts.PartHistory>;
  expectTypeOf<Plain<parts.PartHistory>>().toEqualTypeOf<Plain<History>>();
});

test('so are the events', () => {
  type Served = { [Type in keyof typeof EVENT_SCHEMAS]: z.infer<(typeof EVENT_SCHEMAS)[Type]> };
  expectTypeOf<Plain<contract.EventData>>().toEqualTypeOf<Plain<Served>>();
  expectTypeOf<Plain<contract.SessionSnapshot>>().toEqualTypeOf<Body<typeof sessionSnapshotSchema>>();
  expectTypeOf<Plain<contract.LiveData['llm:chunk']>>().toEqualTypeOf<Body<(typeof LIVE_SCHEMAS)['llm:chunk']>>();
  expectTypeOf<LiveEvent['type']>().toEqualTypeOf<keyof typeof LIVE_SCHEMAS>();
  expectTypeOf<Plain<z.infer<typeof eventBody>>['seq']>().toEqualTypeOf<number>();
});

test('and the codes of errors', () => {
  expectTypeOf<contract.ErrorCode>().toEqualTypeOf<ProblemCode>();
  expectTypeOf<ClientErrorCode>().toExtend<BatonError['code']>();
});
