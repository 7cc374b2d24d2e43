import {
  type Attributes,
  type Context,
  context,
  createContextKey,
  isSpanContextValid,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { BatonError } from '../domain/errors.ts';
import type { Usage } from '../domain/usage.ts';

/** Does nothing, at almost no cost, until the process sets up telemetry. */
const tracer = trace.getTracer('baton');

export type SpanOptions = Readonly<{
  kind?: SpanKind;
  attributes?: Attributes;
  /** Attributes of this span and of every span below it, which stay in this process. */
  shared?: Attributes;
  /** The same, and they travel on with requests. */
  baggage?: Readonly<Record<string, string>>;
  /** W3C `traceparent` of the parent. Default: the active span. */
  parent?: string | null;
  links?: readonly Link[];
  startTime?: Date;
  /** The `error.type` of an error. Default, and null: that of our own errors is their code, of others their name. */
  errorType?: (error: unknown) => string | null;
}>;

/**
 * Does work inside a span, which is active meanwhile and ends with the work, unless the work ends it before. Of an
 * error it records the name, and the message only of our own errors, because that of others may hold the whole prompt.
 */
export function inSpan<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const { kind, attributes = {}, shared = {}, baggage = {}, parent, links = [], startTime } = options;
  const above = parent === undefined ? context.active() : contextOf(parent);
  const under = withShared(withBaggage(above, baggage), shared);
  const settings = {
    attributes: { ...baggageIn(under), ...sharedIn(under), ...attributes },
    links: [...links],
    ...(kind !== undefined && { kind }),
    ...(startTime !== undefined && { startTime }),
  };
  return tracer.startActiveSpan(name, settings, under, async (span) => {
    try {
      return await work(span);
    } catch (error) {
      failSpan(span, options.errorType?.(error) ?? failureOf(error));
      throw error;
    } finally {
      if (span.isRecording()) span.end();
    }
  });
}

const failureOf = (error: unknown): BatonError | string =>
  error instanceof BatonError ? error : error instanceof Error ? error.name : '_OTHER';

const SHARED = createContextKey('baton.shared');

function withShared(under: Context, shared: Attributes): Context {
  if (Object.keys(shared).length === 0) return under;
  return under.setValue(SHARED, { ...sharedIn(under), ...shared });
}

const sharedIn = (under: Context): Attributes => (under.getValue(SHARED) as Attributes | undefined) ?? {};

type PastSpan = Readonly<{
  attributes: Attributes;
  /** W3C `traceparent`. */
  parent: string | null;
  startTime: Date;
  endTime: Date;
  /** The type of the error that it ended with. */
  errorType: string | null;
}>;

/** Records a span of work that has ended, which other processes may have done. */
export function recordSpan(name: string, { attributes, parent, startTime, endTime, errorType }: PastSpan): void {
  const span = tracer.startSpan(name, { attributes, startTime }, contextOf(parent));
  if (errorType !== null) failSpan(span, errorType);
  span.end(endTime);
}

function withBaggage(under: Context, entries: Readonly<Record<string, string>>): Context {
  const all = Object.entries(entries);
  if (all.length === 0) return under;
  const before = propagation.getBaggage(under) ?? propagation.createBaggage();
  return propagation.setBaggage(
    under,
    all.reduce((baggage, [key, value]) => baggage.setEntry(key, { value }), before),
  );
}

function baggageIn(under: Context): Attributes {
  const entries = propagation.getBaggage(under)?.getAllEntries() ?? [];
  return Object.fromEntries(entries.map(([key, { value }]) => [key, value]));
}

/**
 * Marks a span as failed: with a type of error, or with one of our own errors, whose message may be stored.
 * (https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/)
 */
export function failSpan(span: Span, error: BatonError | string): void {
  if (typeof error === 'string') {
    span.setAttribute('error.type', error);
    span.setStatus({ code: SpanStatusCode.ERROR });
    return;
  }
  const { code, message, provider = {} } = error;
  const { status, requestId, host } = provider;
  span.setAttributes({
    'error.type': code,
    ...(status !== undefined && { 'http.response.status_code': status }),
    ...(host !== undefined && { 'server.address': host.replace(/:\d+$/, '') }),
    ...(requestId !== undefined && { 'baton.provider.request_id': requestId }),
    ...(provider.code !== undefined && { 'baton.provider.code': provider.code }),
  });
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** Adds what a floor below knows to the span that is active there. */
export function describeActiveSpan(attributes: Attributes): void {
  trace.getActiveSpan()?.setAttributes(attributes);
}

export function failActiveSpan(error: BatonError): void {
  const span = trace.getActiveSpan();
  if (span !== undefined) failSpan(span, error);
}

/** Tokens by the conventions for generative AI: cached ones are part of the input, reasoning is part of the output. */
export function usageAttributes(usage: Omit<Usage, 'totalTokens'>): Attributes {
  return {
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens,
    'gen_ai.usage.cache_creation.input_tokens': usage.cacheWriteTokens,
  };
}

/** Host and port of a URL, without anything else that it may hold. A model of a program may name an endpoint that is none. */
export function addressOf(url: string): Attributes {
  if (!URL.canParse(url)) return {};
  const { hostname, port, protocol } = new URL(url);
  const known = { 'http:': 80, 'https:': 443 }[protocol];
  const at = port === '' ? known : Number(port);
  return { 'server.address': hostname.replace(/^\[|\]$/g, ''), ...(at !== undefined && { 'server.port': at }) };
}

/** A link to an earlier span, with their relation. */
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

/** The ids that tie a log line to its trace; empty without one. */
export function traceIds(): Readonly<{ traceId?: string; spanId?: string }> {
  const active = trace.getSpanContext(context.active());
  if (active === undefined || !isSpanContextValid(active)) return {};
  return { traceId: active.traceId, spanId: active.spanId };
}

function contextOf(traceparent: string | null): Context {
  const parent = toSpanContext(traceparent);
  return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
}

/** Version 00, and later versions as far as they have its form. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-.*)?$/;

function toSpanContext(traceparent: string | null): SpanContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  const parsed = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(parsed) ? parsed : null;
}
