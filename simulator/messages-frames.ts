import { randomBytes } from 'node:crypto';
import { type Frame, type JsonObject, type PreparedReply, pieces, type WireCall } from './frames.ts';
import { parseJson } from './wire.ts';

const STOP_REASONS = {
  stop: 'end_turn',
  'tool-calls': 'tool_use',
  length: 'max_tokens',
  'content-filter': 'refusal',
} as const;

/** Undefined: the endpoint signs nothing. */
type Sign = (thinking: string) => string | undefined;

export function* messagesFrames(reply: PreparedReply, sign: Sign): Generator<Frame> {
  const { output_tokens: outputTokens, ...inputUsage } = usageOf(reply);
  const message = { ...shellOf(reply), content: [], stop_reason: null, usage: { ...inputUsage, output_tokens: 1 } };
  yield { kind: 'open', event: { type: 'message_start', message } };
  yield { kind: 'open', event: { type: 'ping' } };
  for (const [index, block] of blocksOf(reply).entries()) yield* blockFrames(block, index, reply.chunkChars, sign);
  const delta = { stop_reason: STOP_REASONS[reply.finishReason], stop_sequence: null };
  yield {
    kind: 'end',
    event: { type: 'message_delta', delta, usage: { output_tokens: outputTokens, ...detailsOf(reply) } },
  };
  yield { kind: 'end', event: { type: 'message_stop' } };
}

export function messagesBody(reply: PreparedReply, sign: Sign): JsonObject {
  return {
    ...shellOf(reply),
    content: blocksOf(reply).map((block) => wholeBlock(block, sign)),
    stop_reason: STOP_REASONS[reply.finishReason],
    usage: { ...usageOf(reply), ...detailsOf(reply) },
  };
}

function shellOf(reply: PreparedReply): JsonObject {
  const id = `msg_${randomBytes(12).toString('hex')}`;
  return { id, type: 'message', role: 'assistant', model: reply.model, stop_sequence: null };
}

/** Unlike OpenAI's, `input_tokens` excludes all tokens that are read from or written to the cache. */
function usageOf({ usage }: PreparedReply) {
  return {
    input_tokens: usage.input - usage.cacheRead - usage.cacheWrite,
    cache_read_input_tokens: usage.cacheRead,
    cache_creation_input_tokens: usage.cacheWrite,
    output_tokens: usage.output,
  };
}

function detailsOf({ usage }: PreparedReply): JsonObject {
  return usage.reasoning === 0 ? {} : { output_tokens_details: { thinking_tokens: usage.reasoning } };
}

type Block =
  | Readonly<{ type: 'thinking'; text: string }>
  | Readonly<{ type: 'text'; text: string; sources: PreparedReply['sources'] }>
  | Readonly<{ type: 'tool_use' | 'server_tool_use'; call: WireCall }>
  | Readonly<{ type: 'web_search_tool_result'; id: string }>;

function blocksOf(reply: PreparedReply): Block[] {
  const text = (content: string, sources: PreparedReply['sources'] = []): Block[] =>
    content === '' ? [] : [{ type: 'text', text: content, sources }];
  return [
    ...(reply.reasoning === '' ? [] : [{ type: 'thinking' as const, text: reply.reasoning }]),
    ...reply.searches.flatMap(searchBlocks),
    ...text(reply.text, reply.sources),
    ...reply.calls.map((call): Block => ({ type: 'tool_use', call })),
    ...text(reply.textAfterTools),
  ];
}

/** A search by the provider, and what it found. */
function searchBlocks(query: string): Block[] {
  const id = `srvtoolu_${randomBytes(12).toString('hex')}`;
  return [
    { type: 'server_tool_use', call: { id, name: 'web_search', arguments: JSON.stringify({ query }) } },
    { type: 'web_search_tool_result', id },
  ];
}

const FOUND = {
  type: 'web_search_result',
  url: 'https://weather.example/',
  title: 'Weather',
  encrypted_content: 'EqgfCioIARgBIiQ3',
  page_age: null,
};

function* blockFrames(block: Block, index: number, chunkChars: number, sign: Sign): Generator<Frame> {
  const delta = (kind: 'chunk' | 'structure', change: JsonObject): Frame => ({
    kind,
    event: { type: 'content_block_delta', index, delta: change },
  });
  yield structure({ type: 'content_block_start', index, content_block: openBlock(block) });
  switch (block.type) {
    case 'web_search_tool_result':
      break;
    case 'thinking': {
      for (const piece of pieces(block.text, chunkChars))
        yield delta('chunk', { type: 'thinking_delta', thinking: piece });
      const signature = sign(block.text);
      if (signature !== undefined) yield delta('structure', { type: 'signature_delta', signature });
      break;
    }
    case 'text':
      for (const piece of pieces(block.text, chunkChars)) yield delta('chunk', { type: 'text_delta', text: piece });
      for (const citation of citationsOf(block)) yield delta('structure', { type: 'citations_delta', citation });
      break;
    default:
      for (const piece of pieces(block.call.arguments, chunkChars)) {
        yield delta('chunk', { type: 'input_json_delta', partial_json: piece });
      }
  }
  yield structure({ type: 'content_block_stop', index });
}

function structure(event: JsonObject): Frame {
  return { kind: 'structure', event };
}

function openBlock(block: Block): JsonObject {
  switch (block.type) {
    case 'tool_use':
    case 'server_tool_use':
      return { type: block.type, id: block.call.id, name: block.call.name, input: {} };
    case 'web_search_tool_result':
      return { type: block.type, tool_use_id: block.id, content: [FOUND] };
    case 'thinking':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'text':
      return { type: 'text', text: '' };
  }
}

function wholeBlock(block: Block, sign: Sign): JsonObject {
  switch (block.type) {
    case 'web_search_tool_result':
      return openBlock(block);
    case 'tool_use':
    case 'server_tool_use': {
      const { id, name, arguments: text } = block.call;
      return { type: block.type, id, name, input: parseJson(text)?.value ?? text };
    }
    case 'thinking':
      return { type: 'thinking', thinking: block.text, signature: sign(block.text) ?? '' };
    case 'text': {
      const citations = citationsOf(block);
      return { type: 'text', text: block.text, ...(citations.length > 0 && { citations }) };
    }
  }
}

function citationsOf({ text, sources }: Extract<Block, { type: 'text' }>): JsonObject[] {
  return sources.map(({ url, title }) => ({
    type: 'web_search_result_location',
    cited_text: text.slice(0, 100),
    url,
    title,
    encrypted_index: 'index',
  }));
}
