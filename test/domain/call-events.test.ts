import { expect, it } from 'vitest';
import { callResultEvent } from '../../src/domain/run/call-events.ts';
import type { ToolPart } from '../../src/domain/transcript/message.ts';

it('tells the result of a call as text, and whether its middle was left out', () => {
  const part: ToolPart = { type: 'tool', toolCallId: 'a', toolName: 'read', input: {}, state: 'running' };
  const eventOf = (value: string) =>
    callResultEvent(
      '018f0000-0000-7000-8000-000000000000',
      { index: 1, part },
      { state: 'completed', output: { type: 'text', value } },
    );
  expect(eventOf('short').data).toMatchObject({ sanitized: 'short' });
  expect(eventOf('short').data).not.toHaveProperty('truncated');
  const { data } = eventOf('x'.repeat(3_000));
  expect(data).toMatchObject({ truncated: true });
  expect(Object(data).sanitized).toHaveLength(2_000);
});
