import { describe, expect, test } from 'vitest';
import { completionRequestSchema } from '../../src/api/completion-request.ts';
import { responseRequestSchema } from '../../src/api/response-request.ts';
import { toCompletionRequest } from '../../src/facades/openai/response-request.ts';
import { CHAT_SHAPES, RESPONSE_SHAPES, type RequestShape } from './request-shapes.ts';

const rowsOf = (shapes: Readonly<Record<string, RequestShape>>) => Object.entries(shapes);

/** The path of each problem. */
const problemsOf = (
  result: Readonly<{ error?: Readonly<{ issues: readonly { path: PropertyKey[]; keys?: string[] }[] }> }>,
) => (result.error?.issues ?? []).map(({ path, keys = [] }) => [...path, ...keys].join('.'));

describe('a chat completion', () => {
  test.each(rowsOf(CHAT_SHAPES))('with %s', (_what, { fields, param }) => {
    const problems = problemsOf(completionRequestSchema.safeParse({ model: 'a', ...fields }));
    if (param === undefined) expect(problems).toEqual([]);
    else expect(problems.map((path) => path.startsWith(param))).toContain(true);
  });
});

describe('a response', () => {
  test.each(rowsOf(RESPONSE_SHAPES))('with %s', (_what, { fields, param }) => {
    const parsed = responseRequestSchema.safeParse({ model: 'a', ...fields });
    const translate = () => {
      if (parsed.data === undefined) throw new Error(problemsOf(parsed).join(' '));
      const items = typeof parsed.data.input === 'string' ? [] : parsed.data.input;
      return items.length === 0 ? null : toCompletionRequest(parsed.data, items);
    };
    if (param === undefined) expect(translate).not.toThrow();
    else expect(translate).toThrow(param);
  });
});

test('of all shapes that clients were seen to send, at least sixty are taken', () => {
  const taken = [CHAT_SHAPES, RESPONSE_SHAPES].flatMap(rowsOf).filter(([, { param }]) => param === undefined);
  expect(taken.length).toBeGreaterThanOrEqual(60);
});
