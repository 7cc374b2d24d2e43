import { prefixDigests } from './prompt-prefix.ts';
import { UNBOUND, verifyThinking } from './thinking-signature.ts';
import { placed, type Violation, type ViolationClass, violation } from './violation.ts';
import type { MessagesDetails, WireItem, WireRequest } from './wire.ts';

const MAX_BREAKPOINTS = 4;

/** The violations for which the Messages API would refuse a request, in its words. Empty: the request is valid. */
export function findMessagesViolations(request: WireRequest, details: MessagesDetails): Violation[] {
  const found: Violation[] = [];
  const report: Report = (kind, text) => found.push(violation(kind, text));
  const turns = placeTurns(request, details);
  for (const [index, item] of request.items.entries()) {
    if (item.kind === 'system') found.push(...placed(item.problems, `system.${index}`));
  }
  for (const turn of turns) {
    for (const [index, item] of turn.items.entries())
      found.push(...placed(item.problems, `${turn.path}.content.${index}`));
  }
  if (details.breakpoints.length > MAX_BREAKPOINTS) {
    report(
      'cache',
      `A maximum of ${MAX_BREAKPOINTS} blocks with cache_control may be provided. Found ${details.breakpoints.length}.`,
    );
  }
  checkOrder(turns, report);
  checkPairs(turns, report);
  checkThinking(request, details, turns, report);
  return found;
}

type Report = (kind: ViolationClass, text: string) => void;
type Turn = Readonly<{
  role: 'user' | 'assistant';
  items: readonly WireItem[];
  path: string;
  /** Index of the first item in the joined list of tools and items. */
  start: number;
}>;

function placeTurns(request: WireRequest, { turns }: MessagesDetails): Turn[] {
  let start = request.tools.length + request.items.filter(({ kind }) => kind === 'system').length;
  return turns.map(({ role, items }, index) => {
    const turn = { role, items, path: `messages.${index}`, start };
    start += items.length;
    return turn;
  });
}

type BlockType = 'text' | 'tool_use' | 'tool_result' | 'thinking';

function typeOf({ message }: WireItem): BlockType {
  if (message.toolCalls.length > 0) return 'tool_use';
  if (message.toolResults.length > 0) return 'tool_result';
  return message.parts[0]?.type === 'reasoning' ? 'thinking' : 'text';
}

function checkOrder(turns: readonly Turn[], report: Report): void {
  if (turns.length === 0) report('empty', 'messages: at least one message is required');
  if (turns[0]?.role === 'assistant') report('order', 'messages: first message must use the "user" role');
  if (turns.at(-1)?.role === 'assistant') {
    report(
      'order',
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    );
  }
  for (const [index, { role, items, path }] of turns.entries()) {
    if (turns[index - 1]?.role === role) {
      report(
        'order',
        `messages: roles must alternate between "user" and "assistant", but found multiple "${role}" roles in a row (${path})`,
      );
    }
    if (items.length === 0) report('empty', `${path}: all messages must have non-empty content`);
    const types = items.map(typeOf);
    if (
      role === 'user' &&
      types.lastIndexOf('tool_result') !== types.filter((type) => type === 'tool_result').length - 1
    ) {
      report('order', `${path}: \`tool_result\` blocks must come first in the content of a message`);
    }
    if (role === 'assistant') checkAssistant(types, path, report);
  }
}

function checkAssistant(types: readonly BlockType[], path: string, report: Report): void {
  if (types.includes('thinking') && types[0] !== 'thinking') {
    report(
      'order',
      `${path}.content.0: If an assistant message contains any thinking blocks, the first block must be \`thinking\` or \`redacted_thinking\`. Found \`${types[0]}\`.`,
    );
  }
  if (types.at(-1) === 'thinking') {
    report('order', `${path}: The final block in an assistant message cannot be \`thinking\`.`);
  }
  const firstCall = types.indexOf('tool_use');
  if (firstCall >= 0 && types.slice(firstCall).some((type) => type !== 'tool_use')) {
    report('order', `${path}: \`tool_use\` blocks must be the last blocks of a message`);
  }
}

function checkPairs(turns: readonly Turn[], report: Report): void {
  const seen = new Set<string>();
  for (const [index, turn] of turns.entries()) {
    const calls = callIds(turn);
    for (const id of calls) {
      if (seen.has(id)) report('pairing', `${turn.path}: \`tool_use\` ids must be unique (${id})`);
      seen.add(id);
    }
    const answered = new Set(resultIds(turns[index + 1]));
    const open = calls.filter((id) => !answered.has(id));
    if (open.length > 0) {
      report(
        'pairing',
        `${turn.path}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
      );
    }
    checkResults(turn, new Set(callIds(turns[index - 1])), report);
  }
}

function checkResults(turn: Turn, requested: ReadonlySet<string>, report: Report): void {
  const seen = new Set<string>();
  for (const id of resultIds(turn)) {
    if (!requested.has(id)) {
      report(
        'pairing',
        `${turn.path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    }
    if (seen.has(id)) {
      report(
        'pairing',
        `${turn.path}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
      );
    }
    seen.add(id);
  }
}

function callIds(turn: Turn | undefined): string[] {
  return (turn?.items ?? []).flatMap(({ message }) => message.toolCalls.map(({ id }) => id));
}

function resultIds(turn: Turn | undefined): string[] {
  return (turn?.items ?? []).flatMap(({ message }) => message.toolResults.map(({ id }) => id));
}

function checkThinking(request: WireRequest, details: MessagesDetails, turns: readonly Turn[], report: Report): void {
  const digests = prefixDigests(request);
  for (const { items, path, start } of turns) {
    for (const [index, item] of items.entries()) {
      const problem = thinkingProblem(request.model, details, item, digests[start - 1] ?? '');
      if (problem !== undefined) report('signature', `${path}.content.${index}${problem}`);
    }
  }
  const last = turns.findLast(({ role }) => role === 'assistant');
  const found = last?.items[0];
  if (!details.needsThinking || last === undefined || found === undefined || callIds(last).length === 0) return;
  if (typeOf(found) === 'thinking' || resultIds(turns.at(-1)).length === 0) return;
  report(
    'order',
    `${last.path}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${typeOf(found)}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks).`,
  );
}

/** Why the thinking of a block is refused, as the end of a sentence that begins with its place. */
function thinkingProblem(
  model: string,
  { dropsForeignThinking }: MessagesDetails,
  { message: { parts } }: WireItem,
  promptDigest: string,
): string | undefined {
  const [part] = parts;
  if (part?.type !== 'reasoning') return undefined;
  if (part.encryptedContent === undefined) return '.thinking.signature: Field required';
  const bound = verifyThinking(model, part.summary, part.encryptedContent);
  if (bound === undefined) return ': Invalid `signature` in `thinking` block';
  if (dropsForeignThinking || bound === UNBOUND || bound === promptDigest) return undefined;
  return ': Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".';
}
