import type { ModelMessage } from 'ai';

/**
 * What Anthropic refuses, written from its API reference and its error messages. The messages are first encoded as the
 * Messages API takes them: user and tool messages in a row become one user message, the results first.
 */
type Block = Readonly<{
  type:
    | 'text'
    | 'image'
    | 'thinking'
    | 'redacted_thinking'
    | 'tool_use'
    | 'tool_result'
    | 'server_tool_use'
    | 'server_result';
  id?: string;
  name?: string;
  text?: string;
  input?: unknown;
}>;
export type AnthropicMessage = { role: 'user' | 'assistant'; content: Block[] };

/** The messages in the form of the Messages API. */
export function encodeForAnthropic(messages: readonly ModelMessage[]): AnthropicMessage[] {
  const encoded: AnthropicMessage[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = blocksOf(message);
    const last = encoded.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) encoded.push({ role, content });
  }
  return encoded;
}

function blocksOf(message: ModelMessage): Block[] {
  if (typeof message.content === 'string') return [{ type: 'text', text: message.content }];
  return message.content.flatMap((part): Block[] => {
    switch (part.type) {
      case 'text':
        return [{ type: 'text', text: part.text }];
      case 'file':
        return [{ type: 'image' }];
      case 'reasoning': {
        const { anthropic } = part.providerOptions ?? {};
        const { signature, redactedData } = anthropic ?? {};
        if (signature !== undefined) return [{ type: 'thinking' }];
        return redactedData === undefined ? [] : [{ type: 'redacted_thinking' }];
      }
      case 'tool-call': {
        const type = part.providerExecuted === true ? 'server_tool_use' : 'tool_use';
        return [{ type, id: part.toolCallId, name: part.toolName, input: part.input }];
      }
      case 'tool-result':
        return message.role === 'assistant'
          ? [{ type: 'server_result', id: part.toolCallId }]
          : [{ type: 'tool_result', id: part.toolCallId, text: outputText(part.output) }];
      default:
        return [];
    }
  });
}

function outputText(output: { type: string; value?: unknown; reason?: string | undefined }): string {
  if (output.type === 'execution-denied') return output.reason ?? 'denied';
  const isText = output.type === 'text' || output.type === 'error-text';
  return isText ? String(output.value) : JSON.stringify(output.value);
}

/** Findings in the messages; a valid request has none. */
export function anthropicProblems(messages: readonly AnthropicMessage[]): string[] {
  const problems: string[] = [];
  const ids = new Set<string>();
  if (messages[0]?.role !== 'user') problems.push('messages: first message must use the "user" role');
  if (messages.at(-1)?.role !== 'user') problems.push('this model does not support assistant message prefill');
  messages.forEach(({ role, content }, index) => {
    if (messages[index - 1]?.role === role) problems.push('roles must alternate between "user" and "assistant"');
    if (content.length === 0) problems.push('all messages must have non-empty content');
    for (const block of content) {
      if (block.type === 'text' && (block.text ?? '').trim() === '') {
        problems.push('text content blocks must contain non-whitespace text');
      }
    }
    if (role === 'user') problems.push(...resultProblems(content, messages[index - 1]?.content ?? []));
    else problems.push(...assistantProblems(content, ids));
  });
  return problems;
}

const idsOf = (content: readonly Block[], type: Block['type']) =>
  content.flatMap((block) => (block.type === type ? [block.id] : []));

function resultProblems(content: readonly Block[], before: readonly Block[]): string[] {
  const calls = idsOf(before, 'tool_use');
  const results = idsOf(content, 'tool_result');
  const problems: string[] = [];
  if (calls.join() !== results.join()) {
    problems.push(`tool_use ids ${calls.join()} are answered by tool_result blocks ${results.join()}`);
  }
  if (content.slice(0, results.length).some((block) => block.type !== 'tool_result')) {
    problems.push('tool_result blocks must come first in the content');
  }
  if (content.some((block) => block.type === 'tool_result' && (block.text ?? '').trim() === '')) {
    problems.push('empty tool_result');
  }
  return problems;
}

function assistantProblems(content: readonly Block[], ids: Set<string>): string[] {
  const problems: string[] = [];
  const firstCall = content.findIndex((block) => block.type === 'tool_use');
  if (firstCall >= 0 && content.slice(firstCall).some((block) => block.type !== 'tool_use')) {
    problems.push('tool_use blocks must be the last blocks');
  }
  const last = content.at(-1)?.type;
  if (last === 'thinking' || last === 'redacted_thinking') problems.push('the final block cannot be `thinking`');
  if (idsOf(content, 'server_tool_use').join() !== idsOf(content, 'server_result').join()) {
    problems.push('server_tool_use without its result');
  }
  const calls = content.filter((block) => block.type === 'tool_use' || block.type === 'server_tool_use');
  return [...problems, ...calls.flatMap((call) => callProblems(call, ids))];
}

function callProblems({ id = '', name = '', input }: Block, ids: Set<string>): string[] {
  const problems: string[] = [];
  if (!/^[a-zA-Z0-9_-]+$/.test(id)) problems.push(`tool_use.id: ${id} should match the pattern`);
  if (ids.has(id)) problems.push('`tool_use` ids must be unique');
  ids.add(id);
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(name)) problems.push(`tool_use.name: ${name} should match the pattern`);
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    problems.push('tool_use.input: Input should be a valid dictionary');
  }
  return problems;
}
