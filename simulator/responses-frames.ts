import { randomBytes } from 'node:crypto';
import { issueReasoning } from './encrypted-reasoning.ts';
import { type Frame, type JsonObject, type PreparedReply, pieces, type WireCall } from './frames.ts';

const INCOMPLETE_REASONS: Partial<Record<PreparedReply['finishReason'], string>> = {
  length: 'max_output_tokens',
  'content-filter': 'content_filter',
};

/** The events of a Responses stream, numbered in order. Each item is opened, filled and done before the next. */
export function* responsesFrames(
  reply: PreparedReply,
  includeEncrypted: boolean,
  inBackground = false,
): Generator<Frame> {
  let sequence = 0;
  for (const { kind, event } of unnumberedFrames(reply, includeEncrypted, inBackground)) {
    yield { kind, event: { ...event, sequence_number: sequence } };
    sequence += 1;
  }
}

function* unnumberedFrames(reply: PreparedReply, includeEncrypted: boolean, inBackground: boolean): Generator<Frame> {
  const shell = { ...responseShell(reply), ...(inBackground && { background: true, store: true }) };
  const items = outputItems(reply, includeEncrypted);
  const opening = { ...shell, status: 'in_progress', output: [] };
  yield { kind: 'open', event: { type: 'response.created', response: opening } };
  if (inBackground) {
    yield { kind: 'open', event: { type: 'response.queued', response: { ...opening, status: 'queued' } } };
  }
  yield { kind: 'open', event: { type: 'response.in_progress', response: opening } };
  for (const [index, item] of items.entries()) yield* itemFrames(item, index, reply.chunkChars);
  const response = finishedResponse(reply, shell, items);
  yield { kind: 'end', event: { type: `response.${response.status}`, response } };
}

export function responsesBody(reply: PreparedReply, includeEncrypted: boolean): JsonObject {
  return finishedResponse(reply, responseShell(reply), outputItems(reply, includeEncrypted));
}

function responseShell(reply: PreparedReply) {
  return {
    id: newId('resp'),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    model: reply.model,
    store: false,
    error: null,
    incomplete_details: null,
    usage: null,
  };
}

function finishedResponse(reply: PreparedReply, shell: JsonObject, items: readonly OutputItem[]) {
  const reason = INCOMPLETE_REASONS[reply.finishReason];
  const { usage } = reply;
  return {
    ...shell,
    status: reason === undefined ? 'completed' : 'incomplete',
    incomplete_details: reason === undefined ? null : { reason },
    output: items.map(doneItem),
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cacheRead },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
  };
}

type OutputItem = Readonly<{ id: string }> &
  (
    | Readonly<{ type: 'reasoning'; text: string; encrypted: string | undefined }>
    | Readonly<{ type: 'message'; text: string; annotations: readonly JsonObject[] }>
    | Readonly<{ type: 'image_generation_call'; picture: string }>
    | Readonly<{ type: 'web_search_call'; query: string }>
    | Readonly<{ type: 'function_call'; call: WireCall }>
  );

function outputItems(reply: PreparedReply, includeEncrypted: boolean): OutputItem[] {
  const items: OutputItem[] = [];
  if (reply.reasoning !== '') {
    const encrypted = includeEncrypted ? issueReasoning(reply.model, reply.reasoningTokens) : undefined;
    items.push({ id: newId('rs'), type: 'reasoning', text: reply.reasoning, encrypted });
  }
  for (const query of reply.searches) items.push({ id: newId('ws'), type: 'web_search_call', query });
  if (reply.text !== '') {
    items.push({ id: newId('msg'), type: 'message', text: reply.text, annotations: annotationsOf(reply) });
  }
  for (const picture of reply.pictures) items.push({ id: newId('ig'), type: 'image_generation_call', picture });
  for (const call of reply.calls) items.push({ id: newId('fc'), type: 'function_call', call });
  if (reply.textAfterTools !== '') {
    items.push({ id: newId('msg'), type: 'message', text: reply.textAfterTools, annotations: [] });
  }
  return items;
}

function annotationsOf({ text, sources, documents }: PreparedReply): JsonObject[] {
  const place = { start_index: 0, end_index: text.length };
  return [
    ...sources.map(({ url, title }) => ({ type: 'url_citation', ...place, url, title })),
    ...documents.map((filename, index) => ({ type: 'file_citation', file_id: `file-${index}`, filename, index })),
  ];
}

function* itemFrames(item: OutputItem, outputIndex: number, chunkChars: number): Generator<Frame> {
  const place = { item_id: item.id, output_index: outputIndex };
  yield structure({ type: 'response.output_item.added', output_index: outputIndex, item: openItem(item) });
  if (item.type === 'reasoning') {
    const at = { ...place, summary_index: 0 };
    const part = (text: string) => ({ type: 'summary_text', text });
    yield structure({ type: 'response.reasoning_summary_part.added', ...at, part: part('') });
    yield* deltas('response.reasoning_summary_text.delta', at, item.text, chunkChars);
    yield structure({ type: 'response.reasoning_summary_text.done', ...at, text: item.text });
    yield structure({ type: 'response.reasoning_summary_part.done', ...at, part: part(item.text) });
  } else if (item.type === 'message') {
    const at = { ...place, content_index: 0 };
    const part = { type: 'output_text', text: '', annotations: [] };
    yield structure({ type: 'response.content_part.added', ...at, part });
    yield* deltas('response.output_text.delta', at, item.text, chunkChars);
    for (const [index, annotation] of item.annotations.entries()) {
      yield structure({ type: 'response.output_text.annotation.added', ...at, annotation_index: index, annotation });
    }
    yield structure({ type: 'response.output_text.done', ...at, text: item.text });
    yield structure({ type: 'response.content_part.done', ...at, part: { ...part, text: item.text } });
  } else if (item.type === 'function_call') {
    yield* deltas('response.function_call_arguments.delta', place, item.call.arguments, chunkChars);
    yield structure({ type: 'response.function_call_arguments.done', ...place, arguments: item.call.arguments });
  }
  yield structure({ type: 'response.output_item.done', output_index: outputIndex, item: doneItem(item) });
}

function structure(event: JsonObject): Frame {
  return { kind: 'structure', event };
}

function* deltas(type: string, place: JsonObject, text: string, chunkChars: number): Generator<Frame> {
  for (const delta of pieces(text, chunkChars)) yield { kind: 'chunk', event: { type, ...place, delta } };
}

function openItem(item: OutputItem): JsonObject {
  switch (item.type) {
    case 'reasoning':
      return { id: item.id, type: 'reasoning', summary: [] };
    case 'message':
      return { id: item.id, type: 'message', role: 'assistant', status: 'in_progress', content: [] };
    case 'image_generation_call':
      return { id: item.id, type: item.type, status: 'in_progress', result: null };
    case 'web_search_call':
      return { id: item.id, type: item.type, status: 'in_progress' };
    case 'function_call':
      return { ...callItem(item.id, item.call), arguments: '', status: 'in_progress' };
  }
}

function doneItem(item: OutputItem): JsonObject {
  switch (item.type) {
    case 'reasoning':
      return {
        id: item.id,
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: item.text }],
        ...(item.encrypted !== undefined && { encrypted_content: item.encrypted }),
      };
    case 'message': {
      const content = [{ type: 'output_text', text: item.text, annotations: item.annotations }];
      return { id: item.id, type: 'message', role: 'assistant', status: 'completed', content };
    }
    case 'image_generation_call':
      return { id: item.id, type: item.type, status: 'completed', result: item.picture };
    case 'web_search_call': {
      const action = { type: 'search', query: item.query, queries: [item.query], sources: [] };
      return { id: item.id, type: item.type, status: 'completed', action };
    }
    case 'function_call':
      return { ...callItem(item.id, item.call), arguments: item.call.arguments, status: 'completed' };
  }
}

function callItem(id: string, call: WireCall): JsonObject {
  return { id, type: 'function_call', call_id: call.id, name: call.name };
}

function newId(prefix: string): string {
  return `${prefix}_${randomBytes(16).toString('hex')}`;
}
