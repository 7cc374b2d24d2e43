import { SpanKind } from '@opentelemetry/api';

/**
 * The conventions for generative AI as far as Baton has such spans, from the registry of
 * open-telemetry/semantic-conventions-genai: `model/gen-ai/registry.yaml`, `model/gen-ai/spans.yaml`, `model/mcp/`.
 */
export const TYPES: Readonly<Record<string, 'string' | 'int' | 'double' | 'boolean' | 'string[]' | 'json'>> = {
  'gen_ai.operation.name': 'string',
  'gen_ai.provider.name': 'string',
  'gen_ai.conversation.id': 'string',
  'gen_ai.agent.id': 'string',
  'gen_ai.agent.name': 'string',
  'gen_ai.agent.version': 'string',
  'gen_ai.agent.description': 'string',
  'gen_ai.output.type': 'string',
  'gen_ai.request.model': 'string',
  'gen_ai.request.max_tokens': 'int',
  'gen_ai.request.temperature': 'double',
  'gen_ai.request.top_p': 'double',
  'gen_ai.request.top_k': 'double',
  'gen_ai.request.seed': 'int',
  'gen_ai.request.stop_sequences': 'string[]',
  'gen_ai.request.stream': 'boolean',
  'gen_ai.response.id': 'string',
  'gen_ai.response.model': 'string',
  'gen_ai.response.finish_reasons': 'string[]',
  'gen_ai.response.time_to_first_chunk': 'double',
  'gen_ai.usage.input_tokens': 'int',
  'gen_ai.usage.output_tokens': 'int',
  'gen_ai.usage.reasoning.output_tokens': 'int',
  'gen_ai.usage.cache_read.input_tokens': 'int',
  'gen_ai.usage.cache_creation.input_tokens': 'int',
  'gen_ai.system_instructions': 'json',
  'gen_ai.input.messages': 'json',
  'gen_ai.output.messages': 'json',
  'gen_ai.tool.definitions': 'json',
  'gen_ai.tool.name': 'string',
  'gen_ai.tool.description': 'string',
  'gen_ai.tool.type': 'string',
  'gen_ai.tool.call.id': 'string',
  'gen_ai.tool.call.arguments': 'json',
  'gen_ai.tool.call.result': 'json',
  'mcp.method.name': 'string',
  'mcp.protocol.version': 'string',
  'rpc.response.status_code': 'string',
};

const USAGE = [
  'gen_ai.usage.input_tokens',
  'gen_ai.usage.output_tokens',
  'gen_ai.usage.cache_read.input_tokens',
  'gen_ai.usage.cache_creation.input_tokens',
];

/** What a span of each operation has: what is required, and what is recommended or conditional and known to Baton. */
export const OPERATIONS: Readonly<
  Record<
    string,
    Readonly<{ kind: SpanKind; target: string; attributes: readonly string[]; content: readonly string[] }>
  >
> = {
  chat: {
    kind: SpanKind.CLIENT,
    target: 'gen_ai.request.model',
    attributes: [
      ...USAGE,
      'gen_ai.usage.reasoning.output_tokens',
      'gen_ai.provider.name',
      'gen_ai.request.model',
      'gen_ai.request.max_tokens',
      'gen_ai.request.stream',
      'gen_ai.request.temperature',
      'gen_ai.request.top_p',
      'gen_ai.request.seed',
      'gen_ai.request.stop_sequences',
      'gen_ai.output.type',
      'gen_ai.response.id',
      'gen_ai.response.model',
      'gen_ai.response.finish_reasons',
      'gen_ai.response.time_to_first_chunk',
      'gen_ai.conversation.id',
      'server.address',
      'server.port',
    ],
    content: [
      'gen_ai.system_instructions',
      'gen_ai.input.messages',
      'gen_ai.output.messages',
      'gen_ai.tool.definitions',
    ],
  },
  execute_tool: {
    kind: SpanKind.INTERNAL,
    target: 'gen_ai.tool.name',
    attributes: ['gen_ai.tool.name', 'gen_ai.tool.call.id', 'gen_ai.tool.description', 'gen_ai.tool.type'],
    content: ['gen_ai.tool.call.arguments', 'gen_ai.tool.call.result'],
  },
  invoke_agent: {
    kind: SpanKind.INTERNAL,
    target: 'gen_ai.agent.name',
    attributes: [
      ...USAGE,
      'gen_ai.provider.name',
      'gen_ai.request.model',
      'gen_ai.conversation.id',
      'gen_ai.agent.id',
      'gen_ai.agent.name',
      'gen_ai.agent.version',
      'gen_ai.agent.description',
    ],
    content: [],
  },
};

/** Whether a value is of the type that the registry gives to its attribute. */
export function isOfType(type: (typeof TYPES)[string] | undefined, value: unknown): boolean {
  switch (type) {
    case 'int':
      return Number.isSafeInteger(value);
    case 'double':
      return typeof value === 'number';
    case 'string[]':
      return Array.isArray(value) && value.every((each) => typeof each === 'string');
    case 'json':
      return typeof value === 'string' && JSON.parse(value) !== undefined;
    case undefined:
      return false;
    default:
      return typeof value === type;
  }
}
