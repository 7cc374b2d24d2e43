import { entryOf } from '../src/domain/context/limits/model-entry.ts';
import type { Json, Part, ToolPart, ViewMessage, ViewPart } from '../src/domain/transcript/message.ts';

/** The model of the generated sessions. Its window of a million tokens holds a thousand steps without a prune. */
export const MODEL = 'anthropic/claude-opus-4-8';

export const MODEL_ENTRY = entryOf(
  { provider: 'anthropic', modelId: 'claude-opus-4-8', vendor: 'anthropic' },
  { registered: { contextWindow: 1_000_000, prices: null }, served: null, overrides: [] },
);

/** A number in [0, 1). */
type Random = () => number;

/** Numbers that are the same for the same seed (mulberry32). */
function createRandom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const STEPS_PER_TURN = 24;
const OUTPUTS = { read: 1_100, bash: 500, edit: 90, write: 60 } as const;
const TOOL_NAMES = ['read', 'read', 'bash', 'bash', 'edit', 'write'] as const;

/**
 * Messages with the statistics of recorded coding sessions: few turns of many steps, mostly one call per step, one
 * failed call in ten. A step has about 680 tokens, three fifths of it tool output; the same seed gives the same
 * messages.
 */
export function codingSession(messageCount: number, seed: number): ViewMessage[] {
  const random = createRandom(seed);
  return Array.from({ length: messageCount }, (_, index) => {
    const isUser = index % STEPS_PER_TURN === 0;
    return {
      id: `m${index + 1}`,
      seq: index + 1,
      role: isUser ? 'user' : 'assistant',
      model: isUser ? null : MODEL,
      parts: isUser ? [textPart(code(random, skewed(random, 120, 6_000)))] : stepParts(random, index),
    };
  });
}

/** The session after a prune: all outputs are cleared except the newest. */
export function prunedSession(messages: readonly ViewMessage[], keptMessages: number): ViewMessage[] {
  const marked = (part: ViewPart): ViewPart => (part.type === 'tool' ? { ...part, marks: { pruned: true } } : part);
  return messages.map((message, index) =>
    index < messages.length - keptMessages ? { ...message, parts: message.parts.map(marked) } : message,
  );
}

function stepParts(random: Random, step: number): Part[] {
  const callCount = random() < 0.85 ? 1 : 2 + Math.floor(random() * 3);
  const reasoning: Part[] =
    random() < 0.5
      ? [
          {
            type: 'reasoning',
            text: code(random, skewed(random, 120, 2_000)),
            providerMetadata: { anthropic: { signature: 'c2ln'.repeat(60) } },
          },
        ]
      : [];
  const calls = Array.from({ length: callCount }, (_, index) => call(random, `call_${step}_${index}`));
  return [...reasoning, textPart(code(random, skewed(random, 90, 2_000))), ...calls];
}

function call(random: Random, toolCallId: string): ToolPart {
  const toolName = TOOL_NAMES[Math.floor(random() * TOOL_NAMES.length)] ?? 'read';
  const isError = random() < 0.1;
  const value = code(random, skewed(random, OUTPUTS[toolName], isError ? 400 : 30_000));
  return {
    type: 'tool',
    toolCallId,
    toolName,
    input: inputOf(random, toolName),
    state: isError ? 'error' : 'completed',
    output: { type: isError ? 'error-text' : 'text', value },
  };
}

function inputOf(random: Random, toolName: (typeof TOOL_NAMES)[number]): Json {
  const path = `src/part-${Math.floor(random() * 40)}/file.ts`;
  if (toolName === 'bash') return { command: `grep -rn "${code(random, 20)}" src | head -40`, timeoutMs: 30_000 };
  if (toolName === 'read') return { path, offset: Math.floor(random() * 900), limit: 200 };
  if (toolName === 'write') return { path, content: code(random, skewed(random, 500, 8_000)) };
  return { path, oldText: code(random, skewed(random, 150, 2_000)), newText: code(random, skewed(random, 180, 3_000)) };
}

const textPart = (text: string): Part => ({ type: 'text', text });

/** A length with this median; a few are a hundred times as long. */
function skewed(random: Random, median: number, longest: number): number {
  const rank = random();
  const scale = rank < 0.5 ? 0.1 + 1.8 * rank : (0.5 / (1.001 - rank)) ** 0.9;
  return Math.min(longest, Math.ceil(median * scale));
}

const LINES = [
  '  const rows = await db.selectFrom("parts").where("message_id", "=", id).execute();\n',
  'export function thresholdsOf(usable: number, shares: Shares = {}): Thresholds {\n',
  '    if (error.code !== 404 && attempts < 3) throw new NotFoundError(path, { cause: error });\n',
  'src/store/work/claims.ts:118:12 - error TS2345: Argument of type "string" is not assignable.\n',
  '// What is left after a prune gives no other one, and the order stays as it was.\n',
  '  "dependencies": { "kysely": "0.29.9", "pg": "8.23.1", "zod": "4.6.7" },\n',
  '-rw-r--r-- 1 root root  4821 Nov 21 10:04 prune-plan.test.ts\n\n',
  '        return parts.map((part, index) => (part.type === "tool" ? cleared(part, index) : part));\n',
  '  }\n}\n\n',
  'The test fails because the second claim sees the epoch of the first one. Let me look at the lock order.\n',
] as const;

/** Source code, listings and remarks of this length. */
function code(random: Random, chars: number): string {
  const lines: string[] = [];
  for (let length = 0; length < chars; ) {
    const line = LINES[Math.floor(random() * LINES.length)] ?? LINES[0];
    lines.push(line);
    length += line.length;
  }
  return lines.join('').slice(0, chars);
}
