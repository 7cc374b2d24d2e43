import { z } from 'zod';
import {
  PRUNING_REQUEST_MARK,
  SUMMARY_REQUEST_MARK,
  SUMMARY_SECTIONS,
} from '../src/domain/context/compaction/summary-marks.ts';
import type { Reply } from './reply.ts';
import type { SimulatedRequest } from './request.ts';
import { countText } from './tokens.ts';

const MODES = ['ok', 'empty', 'cut', 'longer', 'garbage', 'tool_call', '429', 'hang', 'overflow'] as const;

/**
 * The answer to one summary request.
 * - `ok`: a valid answer, of about `tokens` tokens if given.
 * - `cut`: half of it, with finish reason `length`.
 * - `longer`: more than the request itself, whatever its output limit.
 * - `garbage`: no sections, or broken JSON.
 * - `tool_call`: a call of the first tool, if tools are sent.
 * - `overflow`: refused. `429`, `503`: refused, optionally with a retry time.
 * - `hang`: no answer until the client leaves.
 * A `gate` holds the answer until it is released.
 */
export const summaryAnswerSchema = z.union([
  z.enum(MODES),
  z.strictObject({
    mode: z.literal('ok'),
    tokens: z.number().int().positive().optional(),
    gate: z.string().optional(),
  }),
  z.strictObject({ mode: z.enum(['429', '503']), retryAfterMs: z.number().int().min(0) }),
]);
export type SummaryAnswer = z.infer<typeof summaryAnswerSchema>;

/** The purpose of a request other than an ordinary step. */
export type SummaryKind = 'summary' | 'pruning';

/** Reads the mark in the last user message. */
export function summaryKindOf({ messages }: SimulatedRequest): SummaryKind | undefined {
  const text = messages.findLast(({ role }) => role === 'user')?.text ?? '';
  if (text.includes(PRUNING_REQUEST_MARK)) return 'pruning';
  return text.includes(SUMMARY_REQUEST_MARK) ? 'summary' : undefined;
}

const DEFAULT_TOKENS = { summary: 200, pruning: 600 } as const;
const GARBAGE = {
  summary: 'Sure! What would you like me to do next?',
  pruning: '{"prunedConversation": [{"role": "us',
};

/**
 * The simulated summarizer: equal requests get equal answers, made of short pieces of the request.
 * @param tokenFactor real tokens per counted token, to keep the request's output limit
 */
export function summaryReply(
  request: SimulatedRequest,
  kind: SummaryKind,
  answer: SummaryAnswer,
  tokenFactor: number,
): Reply {
  const source = sourceOf(request);
  const mode = typeof answer === 'string' ? answer : answer.mode;
  const { tokens = DEFAULT_TOKENS[kind], gate = undefined } =
    typeof answer === 'string' || answer.mode !== 'ok' ? {} : answer;
  if (mode === 'empty') return { text: '' };
  const [tool] = request.tools;
  if (mode === 'tool_call' && tool !== undefined) return { toolCalls: [{ name: tool.name, input: {} }] };
  if (mode === 'garbage') return { text: GARBAGE[kind] };
  if (mode === 'longer') return { text: composed(source, kind, Math.ceil(source.tokens * 1.2) + tokens) };
  const text = composed(source, kind, tokens);
  if (mode === 'cut') return { text: text.slice(0, Math.floor(text.length / 2)), finishReason: 'length' };
  const limit = Math.floor((request.maxOutputTokens ?? Number.POSITIVE_INFINITY) / tokenFactor);
  const gates = gate === undefined ? {} : { gates: { beforeFirstChunk: gate } };
  if (countText(text) > limit) return { text: cutToTokens(text, limit), finishReason: 'length', ...gates };
  return { text, ...gates };
}

type Source = Readonly<{
  turns: readonly Readonly<{ role: string; text: string }>[];
  users: readonly string[];
  ids: readonly string[];
  errors: readonly string[];
  callCount: number;
  tokens: number;
}>;

const ID = /\b(?=[A-Za-z_-]*\d)[A-Za-z][\w-]{5,40}\b/g;
const KEPT_IDS = 8;
const SEARCHED_CHARS = 20_000;

function sourceOf({ messages }: SimulatedRequest): Source {
  const turns = messages
    .map(({ role, text, toolResults }) => ({
      role,
      text: plain([text, ...toolResults.map(({ output }) => output)].join(' ')),
    }))
    .filter(({ text }) => text !== '');
  const all = turns.map(({ text }) => text.slice(0, SEARCHED_CHARS)).join(' ');
  return {
    turns,
    users: turns.filter(({ role }) => role === 'user').map(({ text }) => text),
    ids: [...new Set([...all.matchAll(ID)].map(([id]) => id))].slice(0, KEPT_IDS),
    errors: turns.flatMap(({ role, text }) => (role === 'tool' && /^\W*error\b/i.test(text) ? [text] : [])),
    callCount: messages.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0),
    tokens: turns.reduce((sum, { text }) => sum + countText(text), 0),
  };
}

/** On one line, without text that could be read as a mark or a heading. */
function plain(text: string): string {
  return text.replaceAll(/[<>#]/g, ' ').replaceAll(/\s+/g, ' ').trim();
}

const QUOTED_CHARS = 120;
const quoted = (text: string | undefined): string =>
  text === undefined ? 'none' : [...text.slice(0, QUOTED_CHARS)].join('').trimEnd();

function composed(source: Source, kind: SummaryKind, tokens: number): string {
  return kind === 'summary' ? structuredSummary(source, tokens) : prunedConversation(source, tokens);
}

function structuredSummary(source: Source, tokens: number): string {
  const bodies: Partial<Record<(typeof SUMMARY_SECTIONS)[number], string>> = {
    '## Goal': quoted(source.users[0]),
    '## Completed': `${source.callCount} tool calls in ${source.turns.length} messages.`,
    '## State': quoted(source.turns.findLast(({ role }) => role === 'assistant')?.text),
    '## Next': quoted(source.users.at(-2)),
    '## Facts and ids': source.ids.join(', ') || 'none',
    '## Errors and fixes': quoted(source.errors[0]),
  };
  const written = (state: string): string =>
    SUMMARY_SECTIONS.map(
      (heading) => `${heading}\n${bodies[heading] ?? 'none'}${heading === '## State' ? state : ''}`,
    ).join('\n\n');
  return written(filler(source, tokens - countText(written(''))));
}

function prunedConversation(source: Source, tokens: number): string {
  const summary = quoted(source.users[0]);
  const turns = source.turns.slice(0, -1).map(({ role, text }) => ({ role, content: quoted(text) }));
  let room = tokens - countText(summary);
  const kept = turns.filter(({ content }) => {
    room -= countText(content) + FRAME_TOKENS;
    return room > 0;
  });
  const longer = filler(source, room);
  const conversation = longer === '' ? kept : [...kept, { role: 'user', content: longer }];
  const prunedTokens = conversation.reduce((sum, { content }) => sum + countText(content), 0);
  return JSON.stringify({
    prunedConversation: conversation,
    summary,
    originalTokens: Math.max(source.tokens, prunedTokens),
    prunedTokens,
  });
}

/** Tokens of the JSON object around a message. */
const FRAME_TOKENS = 12;

/** Text of the request, repeated up to about that many tokens. */
function filler(source: Source, tokens: number): string {
  const all = source.turns.map(({ text }) => text).join(' ') || 'nothing';
  let text = '';
  for (let missing = tokens; missing > 0; missing = tokens - countText(text)) {
    const chars = Math.min(all.length, missing * 4);
    text += ` ${all.slice(0, chars)}`;
  }
  return text;
}

/** The longest beginning of the text that has at most that many tokens. */
function cutToTokens(text: string, tokens: number): string {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (countText(text.slice(0, middle)) <= tokens) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low);
}
