import { NOT_RUN } from '../run/settlement.ts';
import { type ConversationCall, type ConversationMessage, parseArgs } from '../transcript/conversation.ts';
import type { MessageRole, Part, ToolPart } from '../transcript/message.ts';

export type NewMessage = Readonly<{ role: MessageRole; parts: readonly Part[] }>;

/**
 * The transcript of a conversation that its client sends whole. A result goes to the first call with its id, in the
 * assistant's message before it, that has none yet; other results are dropped. A call without a result never runs.
 * A compaction stands for the messages that it carries.
 */
export function importedTranscript(conversation: readonly ConversationMessage[]): NewMessage[] {
  const messages: NewMessage[] = [];
  let unanswered: ToolPart[] = [];
  for (const message of conversation) {
    if (message.role === 'compaction') {
      messages.push(...message.messages);
      unanswered = [];
      continue;
    }
    if (message.role === 'tool') {
      const at = unanswered.findIndex(({ toolCallId }) => toolCallId === message.callId);
      const [call] = at === -1 ? [] : unanswered.splice(at, 1);
      if (call !== undefined) Object.assign(call, resultOf(message));
      continue;
    }
    const calls = message.role === 'assistant' ? message.calls.map(toCall) : [];
    messages.push({ role: message.role, parts: [...saidIn(message), ...calls] });
    unanswered = calls;
  }
  return messages;
}

function saidIn(message: Extract<ConversationMessage, { role: 'user' | 'assistant' }>): readonly Part[] {
  if (message.role === 'user' && message.parts !== undefined) return message.parts;
  return message.role === 'assistant' && message.text === '' ? [] : [{ type: 'text', text: message.text }];
}

const toCall = ({ id, name, args }: ConversationCall): ToolPart => ({
  type: 'tool',
  toolCallId: id,
  toolName: name,
  input: parseArgs(args) ?? {},
  state: 'error',
  output: { type: 'error-text', value: NOT_RUN },
});

const resultOf = ({ text, parts }: Extract<ConversationMessage, { role: 'tool' }>) =>
  ({
    state: 'completed',
    output: parts === undefined ? { type: 'text', value: text } : { type: 'content', value: [...parts] },
  }) satisfies Pick<ToolPart, 'state' | 'output'>;
