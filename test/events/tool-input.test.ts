import { expect, test } from 'vitest';
import type { ChunkEvent, LiveEvent } from '../../src/domain/run/events.ts';
import { createMessageProgress } from '../../src/events/message-progress.ts';

const input = (offset: number, content: string, epoch = 1, messageId = 'msg_1'): LiveEvent => ({
  type: 'llm:tool-input',
  data: { messageId, epoch, id: 'call_1', callId: 'a', toolName: 'write_file', offset, content },
});

test('pieces of an input come once and in order between the start and the end of their message, whatever the bus does', () => {
  const progress = createMessageProgress();
  expect(progress.accept(input(0, ''))).toEqual([]);
  expect(progress.takeEventsWanted()).toBe(true);
  expect(progress.begin('msg_1', 'run_1')).toEqual([input(0, '')]);
  expect(progress.accept(input(0, ''))).toEqual([]);
  expect(progress.accept(input(0, 'abc'))).toEqual([input(0, 'abc')]);
  expect(progress.accept(input(0, 'abc'))).toEqual([]);
  expect(progress.accept(input(2, 'cde'))).toEqual([input(3, 'de')]);
  // A gap is not filled in: the call itself has the whole input.
  expect(progress.accept(input(9, 'xyz'))).toEqual([input(9, 'xyz')]);
  expect(progress.accept(input(5, 'fghi'))).toEqual([]);
  expect(progress.accept(input(0, 'new', 2))).toEqual([input(0, 'new', 2)]);
  progress.end('msg_1');
  expect(progress.accept(input(12, 'late'))).toEqual([]);
});

test('pieces that wait for their message are bounded', () => {
  const progress = createMessageProgress();
  for (let n = 0; n < 100; n += 1) progress.accept(input(n * 10_000, 'x'.repeat(10_000)));
  const kept = progress.begin('msg_1', 'run_1');
  const chars = kept.reduce((sum, { type, data }) => sum + (type === 'llm:tool-input' ? data.content.length : 0), 0);
  expect(chars).toBeGreaterThan(200_000);
  expect(chars).toBeLessThanOrEqual(262_144);
});

const text = (offset: number, content: string): ChunkEvent => ({
  type: 'llm:chunk',
  data: { messageId: 'msg_1', epoch: 1, offset, chunkType: 'text', content },
});

test('an input comes after the text that came before it, when their message was not known yet', () => {
  const progress = createMessageProgress();
  for (const event of [text(0, 'Let me '), text(7, 'look.'), input(0, '{}')]) progress.accept(event);
  expect(progress.begin('msg_1', 'run_1')).toEqual([text(0, 'Let me '), text(7, 'look.'), input(0, '{}')]);
});

test('an input waits for text that the bus has lost', () => {
  const progress = createMessageProgress();
  progress.begin('msg_1', 'run_1');
  expect(progress.accept(text(7, 'look.'))).toEqual([]);
  expect(progress.accept(input(0, '{}'))).toEqual([]);
  expect(progress.hasGap()).toBe(true);
  expect(progress.fill([text(0, 'Let me ')])).toEqual([text(0, 'Let me '), text(7, 'look.'), input(0, '{}')]);
});
