import { verifyReasoning } from './encrypted-reasoning.ts';
import { findMessagesViolations } from './strict-messages.ts';
import { placed, type Violation, violation } from './violation.ts';
import type { WireItem, WireRequest } from './wire.ts';

export type StrictContext = Readonly<{
  /** True: the model sent this text after its tool calls, so it may stand between calls and results. */
  wasSentAfterCalls: (text: string) => boolean;
}>;

/** The violations for which a strict provider of the protocol would refuse a request. Empty: the request is valid. */
export function findViolations(request: WireRequest, context: StrictContext): Violation[] {
  return request.messages === undefined
    ? findOpenAiViolations(request, context)
    : [...request.problems, ...toolProblems(request), ...findMessagesViolations(request, request.messages)];
}

/**
 * Finds violations in similar words as a provider; empty: the request is valid. Stricter than OpenAI where another
 * provider is, so that a valid request is valid everywhere.
 */
function findOpenAiViolations(request: WireRequest, context: StrictContext): Violation[] {
  const path = (index: number) => `${request.protocol === 'chat' ? 'messages' : 'input'}[${index}]`;
  const own = request.items.flatMap((item, index) => placed(item.problems, path(index)));
  const sequence = request.items
    .map((item, index) => ({ item, path: path(index) }))
    .filter(({ item }) => item.kind === 'message');
  return [
    ...request.problems,
    ...own,
    ...toolProblems(request),
    ...endProblems(sequence),
    ...(request.protocol === 'chat' ? chatProblems(sequence) : responsesProblems(sequence, context)),
    ...(request.protocol === 'chat' ? [] : reasoningProblems(sequence, request.model)),
  ];
}

type Placed = Readonly<{ item: WireItem; path: string }>;

function toolProblems(request: WireRequest): Violation[] {
  const names = new Set<string>();
  return request.tools.flatMap(({ tool, problems }, index) => {
    const found = placed(problems, `tools[${index}]`);
    if (names.has(tool.name)) {
      const text = `Invalid 'tools[${index}].name': tool names must be unique ('${tool.name}').`;
      found.push(violation('name', text));
    }
    names.add(tool.name);
    return found;
  });
}

function endProblems(sequence: readonly Placed[]): Violation[] {
  const first = sequence[0];
  if (first === undefined) return [violation('empty', 'Invalid request: at least one user message is required.')];
  const problems: Violation[] = [];
  const wrong = (text: string) => problems.push(violation('order', text));
  if (first.item.message.role !== 'user') {
    wrong(`Invalid '${first.path}': the first non-system message must be from the user.`);
  }
  const last = sequence.at(-1);
  if (last?.item.message.role === 'assistant') {
    wrong(`Expected last role User or Tool for serving but got assistant ('${last.path}').`);
  }
  return problems;
}

/** Calls of one batch without a result yet. */
type Batch = { open: Set<string>; answering: boolean };

function chatProblems(sequence: readonly Placed[]): Violation[] {
  const problems: Violation[] = [];
  let batch: Batch = { open: new Set(), answering: false };
  let previousRole: string | undefined;
  for (const { item, path } of sequence) {
    const { role, toolCalls, toolResults } = item.message;
    if (role === 'tool') {
      problems.push(...answer(batch, toolResults, (id) => chatOrphan(id, path)));
    } else {
      if (role === previousRole) {
        const text = `Conversation roles must alternate user/assistant/user/assistant/...: two '${role}' at '${path}'.`;
        problems.push(violation('order', text));
      }
      problems.push(...chatUnanswered(batch));
      batch = { open: new Set(), answering: false };
      problems.push(...openCalls(batch, toolCalls, path));
    }
    previousRole = role;
  }
  return [...problems, ...chatUnanswered(batch)];
}

function chatOrphan(id: string, path: string): string {
  return `Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' ('${path}', tool_call_id '${id}').`;
}

function chatUnanswered(batch: Batch): Violation[] {
  if (batch.open.size === 0) return [];
  const ids = [...batch.open].join(', ');
  const text = `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${ids}`;
  return [violation('pairing', text)];
}

function responsesProblems(sequence: readonly Placed[], context: StrictContext): Violation[] {
  const problems: Violation[] = [];
  let batch: Batch = { open: new Set(), answering: false };
  for (const { item, path } of sequence) {
    const { role, text, toolCalls, toolResults } = item.message;
    if (role === 'tool') {
      problems.push(...answer(batch, toolResults, responsesOrphan));
      continue;
    }
    const isReasoning = item.message.parts[0]?.type === 'reasoning';
    const belongsToCalls =
      role === 'assistant' && (toolCalls.length > 0 || isReasoning || context.wasSentAfterCalls(text));
    if (batch.answering || !belongsToCalls) {
      problems.push(...responsesUnanswered(batch));
      batch = { open: new Set(), answering: false };
    }
    problems.push(...openCalls(batch, toolCalls, path));
  }
  return [...problems, ...responsesUnanswered(batch)];
}

function responsesOrphan(id: string): string {
  return `No tool call found for function call output with call_id ${id}.`;
}

function responsesUnanswered(batch: Batch): Violation[] {
  return [...batch.open].map((id) => violation('pairing', `No tool output found for function call ${id}.`));
}

function openCalls(batch: Batch, calls: readonly { id: string }[], path: string): Violation[] {
  return calls.flatMap(({ id }) => {
    if (batch.open.has(id)) return [violation('pairing', `Duplicate tool call id '${id}' in '${path}'.`)];
    batch.open.add(id);
    return [];
  });
}

function answer(batch: Batch, results: readonly { id: string }[], orphan: (id: string) => string): Violation[] {
  batch.answering = true;
  return results.flatMap(({ id }) => (batch.open.delete(id) ? [] : [violation('pairing', orphan(id))]));
}

function reasoningProblems(sequence: readonly Placed[], model: string): Violation[] {
  return sequence.flatMap(({ item, path }) =>
    item.message.parts.flatMap((part) => {
      if (part.type !== 'reasoning') return [];
      if (part.encryptedContent === undefined) {
        const text = `Invalid '${path}': reasoning items must carry 'encrypted_content' when 'store' is false.`;
        return [violation('signature', text)];
      }
      if (verifyReasoning(model, part.encryptedContent) !== undefined) return [];
      const text = `The encrypted content ${part.encryptedContent.slice(0, 40)} could not be verified. Reason: Encrypted content could not be decrypted or parsed.`;
      return [violation('signature', text)];
    }),
  );
}
