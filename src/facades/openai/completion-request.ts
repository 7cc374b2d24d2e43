import { type Agent, agentSchema, readAgent } from '../../agents/agent.ts';
import {
  type CompletionRequest,
  type ContentWithFiles,
  type FunctionDefinition,
  fileTypeOf,
  imageTypeOf,
  instructionsOf,
  textOf,
} from '../../api/completion-request.ts';
import type { ModelSettings } from '../../domain/model/model-settings.ts';
import type { OutputFormat } from '../../domain/run/output-format.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import type { OutputItem, UserPart } from '../../domain/transcript/message.ts';

/** Why its choice of tools cannot be made. Null: it can. */
export function toolChoiceProblem({ tool_choice: choice, tools }: CompletionRequest): string | null {
  if (choice == null || choice === 'auto' || choice === 'none') return null;
  const names = (tools ?? []).map(({ function: { name: toolName } }) => toolName);
  if (choice === 'required') return names.length > 0 ? null : 'needs tools';
  return namesIn(choice).every((toolName) => names.includes(toolName)) ? null : 'names no tool of this request';
}

type ChosenTools = Exclude<NonNullable<CompletionRequest['tool_choice']>, string>;

const namesIn = (choice: ChosenTools): readonly string[] =>
  choice.type === 'function'
    ? [choice.function.name]
    : choice.allowed_tools.tools.map(({ function: { name: toolName } }) => toolName);

/** The tools of a request that its choice leaves. */
function offeredBy({ tool_choice: choice, tools }: CompletionRequest) {
  if (choice === 'none') return [];
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return tools ?? [];
  const allowed = namesIn(choice);
  return (tools ?? []).filter((tool) => allowed.includes(tool.function.name));
}

export function partsOf({ parts, text }: Extract<ConversationMessage, { role: 'user' }>): readonly UserPart[] {
  return parts ?? [{ type: 'text', text }];
}

/** The text of a content, and its parts if it has files. */
function textAndPartsOf(parts: ContentWithFiles): Readonly<{ text: string; parts?: readonly OutputItem[] }> {
  if (typeof parts === 'string') return { text: parts };
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part] : []));
  const text = textOf(texts);
  return texts.length === parts.length ? { text } : { text, parts: parts.map(toPart) };
}

function toPart(part: Exclude<ContentWithFiles, string>[number]): OutputItem {
  if (part.type === 'text') return { type: part.type, text: part.text };
  if (part.type === 'image_url') {
    const { url } = part.image_url;
    return { type: 'file', url, mediaType: imageTypeOf(url) };
  }
  const { file_data: data = '', file_url: address, filename } = part.file;
  const place =
    address === undefined ? { url: data, mediaType: '' } : { url: address, mediaType: fileTypeOf(address) ?? '' };
  return { type: 'file', ...place, ...(filename != null && { filename }) };
}

/** The conversation without the instructions, which belong to the agent. */
export function conversationOf({ messages }: CompletionRequest): ConversationMessage[] {
  return messages.flatMap((item): ConversationMessage[] => {
    switch (item.role) {
      case 'user':
        return [{ role: 'user', ...textAndPartsOf(item.content) }];
      case 'tool':
        return [{ role: 'tool', ...textAndPartsOf(item.content), callId: item.tool_call_id }];
      case 'assistant':
        return [
          {
            role: 'assistant',
            text: textOf(item.content),
            calls: (item.tool_calls ?? []).map((call) => ({
              id: call.id,
              name: call.function.name,
              args: call.function.arguments,
            })),
          },
        ];
      default:
        return [];
    }
  });
}

/** The owner of a conversation: the same messages with other instructions or another user are another conversation. */
export function ownerOf({ messages, user, safety_identifier: safety }: CompletionRequest): readonly unknown[] {
  const instructions = instructionsOf(messages).map((text) => text.trim());
  return [instructions, user ?? null, safety ?? null];
}

/** The model settings of a request. Null, and an empty `stop`, set nothing. */
export function settingsOf(request: CompletionRequest): ModelSettings {
  const stop = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []);
  const maxOutputTokens = request.max_completion_tokens ?? request.max_tokens;
  return {
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { topP: request.top_p }),
    ...(request.seed != null && { seed: request.seed }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(request.reasoning_effort != null && { reasoning: request.reasoning_effort }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
  };
}

/** The name of each setting in this API. */
export const SETTING_PARAMETERS: Readonly<Record<string, keyof CompletionRequest>> = {
  temperature: 'temperature',
  topP: 'top_p',
  seed: 'seed',
  stopSequences: 'stop',
  reasoning: 'reasoning_effort',
  maxOutputTokens: 'max_completion_tokens',
} satisfies Partial<Record<keyof ModelSettings, keyof CompletionRequest>>;

/** The result that the request asks for. Undefined: a text. */
export function outputOf({ response_format: format }: CompletionRequest): OutputFormat | undefined {
  if (format == null) return undefined;
  if ('json_schema' in format) return { schema: format.json_schema.schema, name: format.json_schema.name };
  return format.type === 'json_object' ? { schema: { type: 'object' } } : undefined;
}

/** The choice of tools that the request forces. Undefined: the model decides. */
function forcedChoice({ tool_choice: choice }: CompletionRequest): Agent['toolChoice'] {
  if (choice == null || choice === 'auto' || choice === 'none') return undefined;
  if (choice === 'required') return choice;
  if (choice.type === 'function') return { tool: choice.function.name };
  return choice.allowed_tools.mode === 'required' ? 'required' : undefined;
}

/**
 * The agent with the request's settings, its instructions after the agent's own, and its tools as tools of the client.
 * @param base as `agentSchema`
 * @throws BatonError `config_invalid` if the result is invalid
 */
export function agentFor(request: CompletionRequest, base: unknown): Agent {
  const agent = readAgent(base);
  const instructions = instructionsOf(request.messages);
  // Parsed, because every later step of the session has to read it.
  return agentSchema.parse({
    ...agent,
    instructions: [agent.instructions, ...instructions].filter((text) => text.trim() !== '').join('\n\n'),
    tools: [...agent.tools, ...offeredBy(request).map((tool) => ({ client: clientTool(tool.function) }))],
    settings: { ...agent.settings, ...settingsOf(request) },
    toolChoice: forcedChoice(request),
    parallelToolCalls: request.parallel_tool_calls === false ? false : undefined,
  });
}

function clientTool({ name: toolName, description, parameters: inputSchema, strict }: FunctionDefinition) {
  return {
    name: toolName,
    description: description == null || description === '' ? toolName : description,
    inputSchema: inputSchema ?? { type: 'object' as const },
    ...(strict === true && { strict }),
  };
}
