import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { chatBody, chatFrames } from './chat-frames.ts';
import { type Delivery, sendJson, sendReply, streamReply } from './delivery.ts';
import { newRecord, note } from './exchange-record.ts';
import { errorBody, type Fault, type Refusal, refusalOf, type StreamFault } from './fault.ts';
import { untilAborted } from './gates.ts';
import type { OpenRecord } from './journal.ts';
import { messagesBody, messagesFrames } from './messages-frames.ts';
import { prepareReply } from './prepare-reply.ts';
import type { Profile } from './profile-rules.ts';
import { promptDigest } from './prompt-prefix.ts';
import { inProtocol } from './protocol-error.ts';
import type { Reply } from './reply.ts';
import type { Protocol, RefusalReason, RequestOutcome, SimulatedRequest } from './request.ts';
import { responsesBody, responsesFrames } from './responses-frames.ts';
import { streamBackground } from './serve-background.ts';
import type { SimulatorState } from './state.ts';
import { findViolations } from './strict.ts';
import { type SummaryAnswer, type SummaryKind, summaryKindOf, summaryReply } from './summarizer.ts';
import { signThinking, UNBOUND } from './thinking-signature.ts';
import { violation } from './violation.ts';
import { factorAt, inputOverflowBody, judgeSize, type RequestSize } from './window.ts';
import { normalizeItems, normalizeTurns, parseJson, WireError, type WireRequest } from './wire.ts';
import { readChatRequest } from './wire-chat.ts';
import { readMessagesRequest } from './wire-messages.ts';
import { readResponsesRequest } from './wire-responses.ts';

type Exchange = Readonly<{
  state: SimulatorState;
  response: ServerResponse;
  record: OpenRecord;
  rawBody: string;
  signal: AbortSignal;
  stopped: AbortSignal;
}>;

type End = Exclude<RequestOutcome, 'in-progress'>;

/**
 * Serves one model request: logs it, judges it, triggers its fault, asks the script, sends the reply. Never rejects: an
 * internal error becomes a 500 with the reason.
 * @param stopped aborts when the simulator stops.
 */
export async function serveModelRequest(
  state: SimulatorState,
  protocol: Protocol,
  request: IncomingMessage,
  response: ServerResponse,
  stopped: AbortSignal,
): Promise<void> {
  const startedAtMs = performance.now();
  const gone = new AbortController();
  const signal = AbortSignal.any([gone.signal, stopped]);
  const record = newRecord(protocol, request, startedAtMs);
  response.once('close', () => {
    if (response.writableFinished) return;
    if (record.outcome === 'in-progress' || record.outcome === 'stalled') record.abortedAtMs = performance.now();
    gone.abort(new Error('The client disconnected.'));
  });
  try {
    const rawBody = await readBody(request);
    const end = await answer({ state, response, record, rawBody, signal, stopped });
    state.journal.close(record, end);
  } catch (error) {
    if (signal.aborted) {
      record.abortedAtMs ??= performance.now();
      state.journal.close(record, record.outcome === 'stalled' ? 'stalled' : 'aborted-by-client');
    } else {
      const message = `The simulator failed: ${error instanceof Error ? error.message : String(error)}`;
      if (response.headersSent) response.destroy();
      else {
        const body = errorBody(message, 'server_error', 'simulator_error');
        sendJson(response, record, 500, inProtocol(protocol, { status: 500, headers: {}, body }).body);
      }
      state.journal.close(record, 'failed');
    }
  }
}

async function answer(exchange: Exchange): Promise<End> {
  const { state, record, rawBody } = exchange;
  record.rawBody = rawBody;
  const wire = readWire(exchange, rawBody);
  if (wire instanceof WireError) {
    note(record, [violation('shape', wire.message)]);
    state.journal.open(record);
    return refuse(exchange, 'invalid', 400, errorBody(wire.message, 'invalid_request_error', null, wire.param));
  }
  const description = describe(exchange, wire);
  const fault =
    description.summary === undefined ? state.takeFault(wire.model) : summaryFault(description.summary.answer);
  if (fault !== undefined && 'kind' in fault && fault.kind === 'delay') {
    await delay(fault.delayMs, undefined, { signal: exchange.signal });
  }
  if (description.summary?.answer === 'hang') await untilAborted(new Promise<never>(() => {}), exchange.signal);
  return (await judge(exchange, description, fault)) ?? play(exchange, description, streamFault(fault));
}

type Asked = Readonly<{
  wire: WireRequest;
  request: SimulatedRequest;
  size: RequestSize;
  /** Real tokens per counted token. */
  tokenFactor: number;
  summary: Readonly<{ kind: SummaryKind; answer: SummaryAnswer }> | undefined;
}>;

function summaryFault(answer: SummaryAnswer): Fault | undefined {
  if (answer === '429') return { kind: 'rate-limit' };
  if (typeof answer === 'object' && answer.mode !== 'ok') {
    return { kind: answer.mode === '429' ? 'rate-limit' : 'overloaded', retryAfterMs: answer.retryAfterMs };
  }
  return answer === 'overflow' ? { kind: 'context-overflow' } : undefined;
}

const readers = { chat: readChatRequest, responses: readResponsesRequest, messages: readMessagesRequest };

function readWire({ state, record }: Exchange, rawBody: string): WireRequest | WireError {
  const json = parseJson(rawBody);
  if (json === undefined) return new WireError('We could not parse the JSON body of your request.', null);
  try {
    return readers[record.protocol](json.value, state.memo);
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
}

function describe({ state, record }: Exchange, wire: WireRequest): Asked {
  const request: SimulatedRequest = {
    protocol: wire.protocol,
    model: wire.model,
    ...(wire.messages === undefined ? normalizeItems(wire.items) : normalizeTurns(wire.items, wire.messages.turns)),
    tools: wire.tools.map(({ tool }) => tool),
    cacheKey: wire.cacheKey,
    maxOutputTokens: wire.maxOutputTokens,
    toolChoice: wire.toolChoice,
    stream: wire.stream,
    index: state.nextIndex(wire.cacheKey),
  };
  const prompt = state.cache.count(wire);
  const tokenFactor = factorAt(state.settings.tokenFactor, request.index);
  const summaryKind = summaryKindOf(request);
  record.model = wire.model;
  record.cacheKey = wire.cacheKey;
  record.request = request;
  record.summary = summaryKind !== undefined;
  record.promptTokens = Math.round(prompt.total * tokenFactor);
  record.cachedTokens = Math.min(record.promptTokens, Math.floor(prompt.cached * tokenFactor));
  record.cacheWriteTokens = Math.floor(prompt.written * tokenFactor);
  record.extendsPrefix = prompt.isExtension;
  const found = findViolations(wire, { wasSentAfterCalls: (text) => state.textsAfterCalls.get(text) !== undefined });
  const accepted = state.profileOf(wire.model)?.takes ?? [];
  note(
    record,
    found.filter((each) => !accepted.includes(each.class)),
  );
  const size: RequestSize = {
    protocol: wire.protocol,
    promptTokens: record.promptTokens,
    toolTokens: Math.round(wire.tools.reduce((sum, { tokens }) => sum + tokens, 0) * tokenFactor),
    maxOutputTokens: wire.maxOutputTokens,
    bytes: Buffer.byteLength(record.rawBody ?? ''),
  };
  state.journal.open(record);
  const summary = summaryKind && { kind: summaryKind, answer: state.takeSummary() };
  return { wire, request, size, tokenFactor, summary };
}

/** Refuses in the order of a provider: load, validity, existence of the model, window. */
async function judge(exchange: Exchange, request: Asked, fault: Fault | undefined): Promise<End | undefined> {
  const { state, record } = exchange;
  const { wire, size } = request;
  const refusal = fault === undefined ? undefined : refusalOf(fault);
  if (refusal !== undefined) return refuse(exchange, 'fault', refusal.status, refusal.body, refusal.headers);
  const [violation] = record.violations;
  if (violation !== undefined && state.settings.strict) {
    return refuse(
      exchange,
      'invalid',
      400,
      errorBody(violation, 'invalid_request_error', null, inputParam(wire.protocol)),
    );
  }
  if (request.summary === undefined && state.scriptOf(wire.model) === undefined) {
    const message = `The model '${wire.model}' does not exist or you do not have access to it.`;
    return refuse(exchange, 'unknown-model', 404, errorBody(message, 'invalid_request_error', 'model_not_found'));
  }
  const profile = state.profileOf(wire.model);
  if (profile !== undefined && profile.protocol !== wire.protocol) {
    const message = `This endpoint does not speak the protocol '${wire.protocol}', only '${profile.protocol}'.`;
    return refuse(exchange, 'unknown-model', 404, errorBody(message, 'invalid_request_error', 'model_not_found'));
  }
  const broken = profile?.refuses(JSON.parse(exchange.rawBody));
  if (broken !== undefined) {
    record.brokenRule = broken.rule;
    return refuse(exchange, 'form', broken.status, broken.body);
  }
  const window = state.windowOf(wire.model);
  if (fault !== undefined && 'kind' in fault && fault.kind === 'context-overflow') {
    const body = inputOverflowBody(size, window.tokens ?? Math.max(1, record.promptTokens - 1));
    return refuse(exchange, 'window', 400, body);
  }
  const verdict = judgeSize(size, window);
  if (verdict.kind !== 'refused') return undefined;
  return refuse(exchange, verdict.reason, verdict.refusal.status, verdict.refusal.body);
}

function inputParam(protocol: Protocol): string {
  return protocol === 'chat' ? 'messages' : 'input';
}

function refuse(
  exchange: Exchange,
  reason: RefusalReason,
  status: Refusal['status'],
  body: unknown,
  headers: Refusal['headers'] = {},
): End {
  exchange.record.refusal = reason;
  const refusal = inProtocol(exchange.record.protocol, { status, headers, body });
  sendJson(exchange.response, exchange.record, refusal.status, refusal.body, refusal.headers);
  return 'refused';
}

async function play(exchange: Exchange, request: Asked, fault: StreamFault | undefined): Promise<End> {
  const { state, record, response, signal } = exchange;
  const { wire, tokenFactor } = request;
  const profile = state.profileOf(wire.model);
  const reply = await replyTo(state, request);
  signal.throwIfAborted();
  const refusal = reply.fault === undefined ? undefined : refusalOf(reply.fault);
  if (refusal !== undefined) return refuse(exchange, 'fault', refusal.status, refusal.body, refusal.headers);
  const prepared = prepareReply(reply, {
    ...state.settings,
    model: wire.model,
    callId: callIdsAfter(request, profile),
    promptTokens: record.promptTokens,
    cachedTokens: record.cachedTokens,
    cacheWriteTokens: record.cacheWriteTokens,
    tokenFactor,
  });
  record.usage = prepared.usage;
  if (prepared.textAfterTools !== '') state.textsAfterCalls.set(prepared.textAfterTools, true);
  const struck = fault ?? streamFault(reply.fault);
  const delivery: Delivery = {
    protocol: wire.protocol,
    response,
    record,
    gates: state.gates,
    replyGates: reply.gates ?? {},
    fault: struck,
    chunkDelayMs: prepared.chunkDelayMs,
    onDelivered: () => reply.onDelivered?.(),
    signal,
  };
  const isEncrypted = wire.includeEncrypted && profile?.hidesReasoning !== true;
  if (wire.background === true) {
    const background = state.backgrounds.begin({
      ...delivery,
      rawBody: exchange.rawBody,
      frames: responsesFrames(prepared, isEncrypted, true),
      fault: struck?.kind === 'error-in-stream' ? struck : undefined,
      stopped: exchange.stopped,
    });
    if (wire.stream) return streamBackground(background, delivery);
    sendJson(response, record, 200, background.whole());
    return 'completed';
  }
  if (wire.protocol === 'messages') {
    const bound = profile?.signs === 'free' ? UNBOUND : promptDigest(wire);
    const sign = (text: string) => (profile?.signs === 'never' ? undefined : signThinking(wire.model, text, bound));
    return wire.stream
      ? streamReply(delivery, messagesFrames(prepared, sign))
      : sendReply(delivery, messagesBody(prepared, sign));
  }
  if (wire.protocol === 'chat') {
    return wire.stream
      ? streamReply(delivery, chatFrames(prepared, wire.includeUsage, profile))
      : sendReply(delivery, chatBody(prepared));
  }
  return wire.stream
    ? streamReply(delivery, responsesFrames(prepared, isEncrypted))
    : sendReply(delivery, responsesBody(prepared, isEncrypted));
}

/** Ids that go on counting where the conversation is. */
function callIdsAfter(
  { request }: Asked,
  profile: Profile | undefined,
): ((name: string, at: number) => string) | undefined {
  if (profile?.callId === undefined) return undefined;
  const before = request.messages.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0);
  const { callId } = profile;
  return (name, at) => callId(name, before + at);
}

async function replyTo(state: SimulatorState, { wire, request, size, tokenFactor, summary }: Asked): Promise<Reply> {
  const verdict = judgeSize(size, state.windowOf(wire.model));
  // A summary request must not displace the conversation in the provider's cache.
  if (summary === undefined) state.cache.store(wire);
  const reply =
    summary === undefined
      ? ((await state.scriptOf(wire.model)?.(request)) ?? {})
      : summaryReply(request, summary.kind, summary.answer, tokenFactor);
  if (verdict.kind !== 'truncated') return reply;
  return { ...reply, usage: { ...reply.usage, input: verdict.tokens, cacheRead: 0 } };
}

function streamFault(fault: Fault | undefined): StreamFault | undefined {
  if (fault === undefined || !('kind' in fault)) return undefined;
  return fault.kind === 'stall' || fault.kind === 'cut' || fault.kind === 'error-in-stream' ? fault : undefined;
}

export async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
