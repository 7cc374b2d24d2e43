import { expect, it } from 'vitest';
import { OUTPUT_RULES, type OutputRequest, planOutput } from '../../../src/domain/model/output-rules.ts';
import type { ModelProtocol } from '../../../src/domain/model/shown-media.ts';
import type { OutputMode } from '../../../src/domain/run/output-format.ts';

const OPEN = { type: 'object' } as const;
const STRICT = { type: 'object', properties: {}, required: [], additionalProperties: false } as const;
const T = { hasTools: true, takesTools: true };
const NO_TOOLS = { hasTools: false, takesTools: true };
const NEVER = { hasTools: false, takesTools: false };

const ROWS: readonly (readonly [
  row: number,
  protocol: ModelProtocol,
  modelId: string,
  mode: OutputMode,
  at: typeof T,
  by: OutputRequest['by'],
  tools: OutputRequest['tools'],
  more?: Readonly<{ strict?: true; isLast?: true }>,
])[] = [
  [0, 'openai-responses', 'gpt-4', 'auto', T, 'tool', 'callable'],
  [0, 'openai-chat', 'gpt-4o-2024-05-13', 'auto', T, 'tool', 'callable'],
  [0, 'openai-chat', 'gpt-3.5-turbo', 'last', T, 'later', 'callable'],
  [0, 'openai-chat', 'gpt-3.5-turbo', 'last', T, 'text', 'none', { isLast: true }],
  [1, 'openai-responses', 'gpt-5.4', 'auto', T, 'native', 'callable'],
  [1, 'openai-chat', 'gpt-4o', 'auto', NO_TOOLS, 'native', 'callable'],
  [1, 'openai-responses', 'gpt-5.4', 'tool', T, 'tool', 'callable'],
  [1, 'openai-responses', 'gpt-5.4', 'last', T, 'later', 'callable'],
  [1, 'openai-responses', 'gpt-5.4', 'last', T, 'native', 'none', { isLast: true }],
  [1, 'openai-responses', 'gpt-5.4', 'last', NO_TOOLS, 'native', 'none'],
  [2, 'anthropic-messages', 'claude-sonnet-4-5-20250929', 'auto', T, 'native', 'callable', { strict: true }],
  [2, 'anthropic-messages', 'claude-opus-5', 'auto', T, 'tool', 'callable'],
  [2, 'anthropic-messages', 'claude-opus-5', 'native', T, 'native', 'callable'],
  [3, 'anthropic-messages', 'claude-3-7-sonnet', 'auto', T, 'tool', 'callable', { strict: true }],
  [3, 'anthropic-messages', 'other', 'last', T, 'text', 'none', { isLast: true }],
  [4, 'openai-compatible', 'gemini-2.5-pro', 'auto', T, 'tool', 'callable'],
  [4, 'openai-compatible', 'qwen', 'auto', NO_TOOLS, 'native', 'callable'],
  [4, 'openai-compatible', 'qwen', 'auto', NEVER, 'native', 'callable'],
  [4, 'openai-compatible', 'qwen', 'tool', NEVER, 'native', 'omitted'],
  [4, 'openai-compatible', 'qwen', 'last', T, 'later', 'callable'],
  [4, 'openai-compatible', 'qwen', 'last', T, 'native', 'omitted', { isLast: true }],
];

it.each(ROWS.map((row) => ({ row })))('row $row.0: $row.1 $row.2, mode $row.3', ({ row }) => {
  const [, protocol, modelId, mode, at, by, tools, more = {}] = row;
  const format = { schema: more.strict === true ? STRICT : OPEN, mode };
  const state = { repairs: 0, ...(more.isLast === true && { isLast: true as const }) };
  expect(planOutput(format, state, { protocol, modelId, ...at })).toEqual({ by, tools });
});

it('every row of the table is tried above', () => {
  const matching = (protocol: ModelProtocol, id: string): number =>
    OUTPUT_RULES.findIndex(({ protocols, matches }) => protocols.includes(protocol) && matches?.(id) !== false);
  for (const [row, protocol, id] of ROWS) expect(matching(protocol, id), id).toBe(row);
  expect(new Set(ROWS.map(([row]) => row)).size).toBe(OUTPUT_RULES.length);
});
