import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { BatonError } from '../domain/errors.ts';

/** Does nothing, and costs next to nothing, until a process has set up telemetry. */
const tracer = trace.getTracer('baton');

export type SpanOptions = Readonly<{
  kind?: SpanKind;
  attributes?: Attributes;
  /** A W3C `traceparent` that the span belongs under. Default: whatever span is active. */
  parent?: string | null;
  links?: readonly Link[];
  startTime?: Date;
}>;

/**
 * Does work inside a span, which is active meanwhile and ends with it, unless the work has ended it before. An error is
 * told by its code or name alone: the messages of providers may hold the whole prompt.
 */
export function inSpan<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const { kind, attributes = {}, parent, links = [], startTime } = options;
  const under = parent === undefined ? context.active() : contextOf(parent);
  const settings = {
    attributes,
    links: [...links],
    ...(kind !== undefined && { kind }),
    ...(startTime !== undefined && { startTime }),
  };
  return tracer.startActiveSpan(name, settings, under, async (span) => {
    try {
      return await work(span);
    } catch (error) {
      failSpan(span, error instanceof BatonError ? error.code : error instanceof Error ? error.name : '_OTHER');
      throw error;
    } finally {
      if (span.isRecording()) span.end();
    }
  });
}

/** https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/ */
export function failSpan(span: Span, errorType: string): void {
  span.setAttribute('error.type', errorType);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Says of the active span that what it stands for did not work. */
export function failActiveSpan(errorType: string): void {
  const span = trace.getActiveSpan();
  if (span !== undefined) failSpan(span, errorType);
}

/** A link to an earlier span, and what it is to the one that has the link. */
export function linkTo(traceparent: string | null, relation: 'retry' | 'recovery'): Link[] {
  const earlier = toSpanContext(traceparent);
  return earlier === null ? [] : [{ context: earlier, attributes: { 'baton.link': relation } }];
}

/** The active span as a W3C `traceparent`; null without one. https://www.w3.org/TR/trace-context/#traceparent-header */
export function currentTraceparent(): string | null {
  const active = trace.getSpanContext(context.active());
  if (active === undefined || !isSpanContextValid(active)) return null;
  const flags = (active.traceFlags & 0xff).toString(16).padStart(2, '0');
  return `00-${active.traceId}-${active.spanId}-${flags}`;
}

/** What ties a log line to its trace; empty without one. */
export function traceIds(): Readonly<{ traceId?: string; spanId?: string }> {
  const active = trace.getSpanContext(context.active());
  if (active === undefined || !isSpanContextValid(active)) return {};
  return { traceId: active.traceId, spanId: active.spanId };
}

function contextOf(traceparent: string | null): Context {
  const parent = toSpanContext(traceparent);
  return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
}

/** Version 00, and later ones as far as they are the same. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;

function toSpanContext(traceparent: string | null): SpanContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  const parsed = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(parsed) ? parsed : null;
}
