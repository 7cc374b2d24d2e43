import { describe, expect, test } from 'vitest';
import { type FailedRun, groupFailures, normalizeMessage } from '../../src/domain/run/failure-groups.ts';

const failed = (fields: Partial<FailedRun> = {}): FailedRun => ({
  runId: 'r1',
  sessionId: 's1',
  tenant: 'default',
  agent: 'coder',
  model: 'openai/gpt',
  code: 'rate_limited',
  message: 'Limit of 30,000 reached, retry in 1.5 s',
  at: new Date('2026-01-31T12:10:00Z'),
  ...fields,
});

describe('a message without what differs', () => {
  test.each([
    ['Limit of 30,000 reached, retry in 1.5 s', 'Limit of # reached, retry in # s'],
    ['No file "secret plan.txt" or `rm -rf`, said \'they\'', 'No file <text> or <text>, said <text>'],
    ["the model doesn't answer, and it can't", "the model doesn't answer, and it can't"],
    ['GET https://x.example/a?key=1 failed', 'GET <url> failed'],
    ['run_0199c0ffee007000800000000000000a and req-7f3a91bc22', '<id> and <id>'],
    ['0199c0ff-ee00-7000-8000-00000000000a', '<id>'],
    ['  two\n lines ', 'two lines'],
  ])('%s', (message, text) => {
    expect(normalizeMessage(message)).toBe(text);
  });

  test('has at most 200 characters', () => {
    expect(normalizeMessage('word '.repeat(1_000)).length).toBeLessThanOrEqual(200);
  });
});

describe('groups of failures', () => {
  test('are by cause, the most frequent first, with counts by hour and the newest five', () => {
    const at = (minute: number) => new Date(Date.UTC(2026, 0, 31, 12, minute));
    const runs = Array.from({ length: 7 }, (_, n) =>
      failed({ runId: `r${n}`, at: at(n * 15), message: `Limit of ${n}`, tenant: n % 2 ? 'a' : 'b' }),
    );
    expect(groupFailures(runs, 6)[0]?.newest).toHaveLength(6);
    const groups = groupFailures([failed({ message: 'Other', at: at(0) }), ...runs]);
    expect(groups).toMatchObject([
      {
        code: 'rate_limited',
        provider: 'openai',
        model: 'openai/gpt',
        agent: 'coder',
        text: 'Limit of #',
        count: 7,
        tenants: 2,
        firstAt: at(0),
        lastAt: at(90),
        hours: [
          { hour: at(0), count: 4 },
          { hour: at(60), count: 3 },
        ],
        newest: [6, 5, 4, 3, 2].map((n) => ({ runId: `r${n}` })),
      },
      { text: 'Other', count: 1 },
    ]);
    expect(groups[0]?.fingerprint).toMatch(/^[0-9a-f]{16}$/);
  });

  test.each([
    ['code', { code: 'transport' }],
    ['model', { model: 'openai/other' }],
    ['agent', { agent: 'clerk' }],
    ['message', { message: 'Another one' }],
  ] as const)('differ by %s', (_name, fields) => {
    const [first, second, ...rest] = groupFailures([failed(), failed(fields)]);
    expect(rest).toEqual([]);
    expect(first?.fingerprint).not.toBe(second?.fingerprint);
  });

  test('have the same fingerprint whatever else there is', () => {
    const [alone] = groupFailures([failed()]);
    const again = groupFailures([
      failed({ code: 'transport' }),
      failed({ message: 'Limit of 7 reached, retry in 9 s' }),
    ]);
    expect(again.map(({ fingerprint }) => fingerprint)).toContain(alone?.fingerprint);
  });
});
