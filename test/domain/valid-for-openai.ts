/**
 * OpenAI's rules for requests, written from its API reference and its error messages, not from the code under test.
 * Each finding is one line; a valid request has none. Bodies come from the wire, so they are read as plain JSON.
 */
type Field =
  | 'type'
  | 'role'
  | 'content'
  | 'text'
  | 'image_url'
  | 'url'
  | 'file'
  | 'file_data'
  | 'file_url'
  | 'tool_calls'
  | 'tool_call_id'
  | 'id'
  | 'call_id'
  | 'function'
  | 'name'
  | 'arguments'
  | 'output'
  | 'encrypted_content';
type Fields = Readonly<Partial<Record<Field, unknown>>>;

/** An item of a request: its kind and id, for the rules of order, and the problems within it. */
type Event = Readonly<{
  kind: 'user' | 'assistant' | 'call' | 'result' | 'reasoning' | 'hosted' | 'unknown';
  id: string;
  problems: readonly string[];
}>;

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
const isBlank = (value: unknown): boolean => textOf(value).trim() === '';

/** Findings in the `messages` of a chat-completions request. */
export function chatProblems(messages: readonly unknown[]): string[] {
  const sent = messages.map(fieldsOf).filter(({ role }) => role !== 'system' && role !== 'developer');
  const inARow = sent.filter(({ role }, index) => role !== 'tool' && role === sent[index - 1]?.role);
  return [
    ...eventProblems(sent.flatMap(chatEvents)),
    ...inARow.map(({ role }) => `two messages in a row from ${role}`),
  ];
}

/** Findings in the `input` of a Responses request that stores nothing. */
export function responsesProblems(input: readonly unknown[]): string[] {
  const items = input.map(fieldsOf).filter(({ role }) => role !== 'system' && role !== 'developer');
  const events = items.map(responsesEvent);
  return [...eventProblems(events), ...reasoningProblems(events)];
}

function chatEvents(message: Fields): Event[] {
  switch (message.role) {
    case 'user':
      return [{ kind: 'user', id: '', problems: userContentProblems(message.content) }];
    case 'tool':
      return [resultEvent(message.tool_call_id, message.content)];
    case 'assistant': {
      const calls = listOf(message.tool_calls).map(fieldsOf);
      const mayBeEmpty = message.content === null && calls.length > 0;
      const problems = isBlank(message.content) && !mayBeEmpty ? ['empty assistant message'] : [];
      if (message.tool_calls !== undefined && calls.length === 0) problems.push('empty tool_calls');
      return [
        { kind: 'assistant', id: '', problems },
        ...calls.map((call) => callEvent(call.id, fieldsOf(call.function))),
      ];
    }
    default:
      return [{ kind: 'unknown', id: '', problems: [`unknown role ${JSON.stringify(message.role)}`] }];
  }
}

function responsesEvent(item: Fields): Event {
  if (item.type === 'function_call') return callEvent(item.call_id, item);
  if (item.type === 'function_call_output') return resultEvent(item.call_id, item.output);
  if (item.type === 'web_search_call') return { kind: 'hosted', id: '', problems: [] };
  if (item.type === 'reasoning') {
    const problems = isBlank(item.encrypted_content) ? ['reasoning without encrypted content'] : [];
    return { kind: 'reasoning', id: textOf(item.id), problems };
  }
  const isMessage = item.type === undefined || item.type === 'message';
  if (isMessage && item.role === 'user') {
    return { kind: 'user', id: '', problems: userContentProblems(item.content) };
  }
  if (isMessage && item.role === 'assistant') {
    return { kind: 'assistant', id: '', problems: isBlank(item.content) ? ['empty assistant message'] : [] };
  }
  return { kind: 'unknown', id: '', problems: [`nothing is stored, so ${JSON.stringify(item.type)} means nothing`] };
}

const WIRE_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

function callEvent(id: unknown, call: Fields): Event {
  const problems: string[] = [];
  if (!WIRE_NAME.test(textOf(id))) problems.push(`call id ${JSON.stringify(id)} is not allowed`);
  if (!WIRE_NAME.test(textOf(call.name))) problems.push(`tool name ${JSON.stringify(call.name)} is not allowed`);
  const args: unknown = JSON.parse(textOf(call.arguments));
  if (typeof args !== 'object' || args === null || Array.isArray(args)) problems.push('arguments are no object');
  return { kind: 'call', id: textOf(id), problems };
}

function resultEvent(id: unknown, output: unknown): Event {
  const content = Array.isArray(output) ? userContentProblems(output) : isBlank(output) ? ['empty output'] : [];
  return { kind: 'result', id: textOf(id), problems: content };
}

function userContentProblems(content: unknown): string[] {
  if (typeof content === 'string') return isBlank(content) ? ['empty user message'] : [];
  const parts = listOf(content);
  return parts.length === 0 ? ['empty user message'] : parts.flatMap(userPartProblems);
}

function userPartProblems(value: unknown): string[] {
  const part = fieldsOf(value);
  switch (part.type) {
    case 'text':
    case 'input_text':
      return isBlank(part.text) ? ['empty text part'] : [];
    case 'image_url':
      return isBlank(fieldsOf(part.image_url).url) ? ['image without url'] : [];
    case 'input_image':
      return isBlank(part.image_url) ? ['image without url'] : [];
    case 'file':
      return isBlank(fieldsOf(part.file).file_data) ? ['file without data'] : [];
    case 'input_file':
      return isBlank(part.file_data) && isBlank(part.file_url) ? ['file without data'] : [];
    default:
      return [`unknown content part ${JSON.stringify(part.type)}`];
  }
}

function eventProblems(events: readonly Event[]): string[] {
  const problems = events.flatMap((event) => event.problems);
  const first = events[0]?.kind;
  if (first !== 'user') problems.push(`the first message is from ${first}`);
  const last = events.at(-1)?.kind;
  if (last !== 'user' && last !== 'result') problems.push(`the last message is from ${last}`);
  return [...problems, ...pairingProblems(events)];
}

/** All results of a batch follow it directly and in its order; no id opens two calls. */
function pairingProblems(events: readonly Event[]): string[] {
  const problems: string[] = [];
  const ids = new Set<string>();
  let waiting: string[] = [];
  let answering = false;
  for (const { kind, id } of [...events, { kind: 'user', id: '' }]) {
    const ends = kind === 'user' || kind === 'assistant' || (answering && kind !== 'result');
    if (ends) {
      if (waiting.length > 0) problems.push(`calls without output: ${waiting.join()}`);
      waiting = [];
      answering = false;
    }
    if (kind === 'call') {
      if (ids.has(id)) problems.push(`call id ${id} is used twice`);
      ids.add(id);
      waiting.push(id);
    } else if (kind === 'result') {
      if (waiting.shift() !== id) problems.push(`output ${id} answers no open call`);
      answering = true;
    }
  }
  return problems;
}

function reasoningProblems(events: readonly Event[]): string[] {
  const reasoning = events.flatMap((event, index) => (event.kind === 'reasoning' ? [{ ...event, index }] : []));
  const dangling = reasoning.filter(({ index }) => {
    const next = events.slice(index).find((event) => event.kind !== 'reasoning')?.kind;
    return next !== 'assistant' && next !== 'call' && next !== 'hosted';
  });
  return dangling.map(({ id }) => `reasoning ${id} was provided without its required following item`);
}
