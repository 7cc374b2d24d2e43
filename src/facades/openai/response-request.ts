import { type CompletionRequest, completionRequestSchema } from '../../api/completion-request.ts';
import type {
  Content,
  InputItem,
  InputTokensRequest,
  ResponseRequest,
  TextFormat,
} from '../../api/response-request.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';

/** The field here that a field of a chat completion stands for. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  messages: ['input'],
  response_format: ['text', 'format'],
  reasoning_effort: ['reasoning', 'effort'],
  max_completion_tokens: ['max_output_tokens'],
};

/** The fields of a request that say something about a completion. */
type TranslatedRequest = Omit<InputTokensRequest, 'input'> & Partial<ResponseRequest>;

/**
 * The same request as a chat completion.
 * @param items its input, without the items that only refer to earlier ones
 * @throws ProblemError `invalid_request` that names the field of this request
 */
export function toCompletionRequest(body: TranslatedRequest, items: readonly InputItem[]): CompletionRequest {
  const { instructions, tools, tool_choice: choice, text, reasoning } = body;
  const messages = [
    ...(instructions == null ? [] : [{ role: 'system', content: instructions }]),
    ...items.reduce(addMessage, []),
  ];
  const parsed = completionRequestSchema.safeParse({
    model: body.model,
    messages,
    temperature: body.temperature,
    top_p: body.top_p,
    max_completion_tokens: body.max_output_tokens,
    reasoning_effort: reasoning?.effort,
    tools: tools?.map(({ type, ...definition }) => ({ type, function: definition })),
    tool_choice: toToolChoice(choice),
    parallel_tool_calls: body.parallel_tool_calls,
    response_format: toResponseFormat(text?.format),
    user: body.user,
    safety_identifier: body.safety_identifier,
  });
  const issues = parsed.error?.issues.map((issue) => {
    const [field, ...rest] = issue.path;
    const renamed = FIELDS[String(field)];
    // A message of the completion has another number than the item from which it was made.
    return renamed === undefined
      ? issue
      : { ...issue, path: field === 'messages' ? [...renamed] : [...renamed, ...rest] };
  });
  refuseInvalid({ target: 'json', success: parsed.success, ...(issues !== undefined && { error: { issues } }) });
  if (parsed.data === undefined) throw new Error('an invalid request was not refused');
  return parsed.data;
}

function toToolChoice(choice: InputTokensRequest['tool_choice']) {
  if (typeof choice !== 'object' || choice === null) return choice;
  const asFunction = ({ type, name }: Readonly<{ type: 'function'; name: string }>) => ({ type, function: { name } });
  if (choice.type === 'function') return asFunction(choice);
  const { type, mode, tools } = choice;
  return { type, allowed_tools: { mode, tools: tools.map(asFunction) } };
}

function toResponseFormat(textFormat: TextFormat | null | undefined) {
  if (textFormat?.type !== 'json_schema') return textFormat;
  const { type, ...schema } = textFormat;
  return { type, json_schema: schema };
}

type Message = Readonly<{ role: string; content?: unknown; tool_calls?: readonly object[]; tool_call_id?: string }>;

/** Text and calls of one answer are items of their own here, and one message there. */
function addMessage(messages: readonly Message[], input: InputItem): Message[] {
  const last = messages.at(-1);
  switch (input.type) {
    case 'message':
      return [...messages, { role: input.role, content: toContent(input.content) }];
    case 'function_call': {
      const call = { id: input.call_id, type: 'function', function: { name: input.name, arguments: input.arguments } };
      if (last?.role !== 'assistant') return [...messages, { role: 'assistant', tool_calls: [call] }];
      return [...messages.slice(0, -1), { ...last, tool_calls: [...(last.tool_calls ?? []), call] }];
    }
    case 'function_call_output':
      return [...messages, { role: 'tool', tool_call_id: input.call_id, content: toContent(input.output) }];
    default:
      return [...messages];
  }
}

function toContent(parts: Content): unknown {
  if (typeof parts === 'string') return parts;
  return parts.map((part) => {
    const { type, text, image_url: url, detail, refusal, file_data: data, file_url: address, filename } = part;
    switch (type) {
      case 'input_text':
      case 'output_text':
        return { type: 'text', text };
      case 'refusal':
        return { type: 'text', text: refusal };
      case 'input_image':
        return { type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } };
      case 'input_file':
        return { type: 'file', file: { file_data: data, file_url: address, ...(filename != null && { filename }) } };
      default:
        return part;
    }
  });
}
