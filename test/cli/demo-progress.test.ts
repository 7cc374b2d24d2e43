import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { isOver, NOTHING_YET, type Tally, tallyEvent } from '../../src/cli/demo/tally.ts';
import { createPrinter } from '../../src/cli/terminal/printer.ts';
import { NO_PROGRESS, type Piece, showEvent } from '../../src/cli/terminal/progress.ts';
import type { EventData } from '../../src/client/contract.ts';
import type { Chunk, StreamEvent } from '../../src/client/session-events.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';

const runId = 'run_1';
const messageId = 'msg_1';

type NewEvent = { [Type in keyof EventData]: { type: Type; data: EventData[Type] } }[keyof EventData];

const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const durable = (event: NewEvent, second = 0): StreamEvent => ({ seq: 1, runId, createdAt: at(second), ...event });
const chunk = (data: Partial<Chunk> & Pick<Chunk, 'offset' | 'content'>): StreamEvent => ({
  type: 'llm:chunk',
  data: { messageId, epoch: 1, chunkType: 'text', ...data },
});
function piecesOf(...items: readonly StreamEvent[]): Piece[] {
  let progress = NO_PROGRESS;
  return items.flatMap((item) => {
    const shown = showEvent(progress, item);
    progress = shown.progress;
    return shown.pieces;
  });
}

const textsOf = (...items: readonly StreamEvent[]): string[] => piecesOf(...items).map(({ text }) => text);

describe('the progress that is shown', () => {
  it('names the step and the tokens used before it', () => {
    const step = (no: number) =>
      durable({ type: 'step:started', data: { runId, step: no, attempt: no === 1 ? 1 : 2, messageId } });
    const used = durable({ type: 'usage:updated', data: { runId, usage: { ...NO_USAGE, totalTokens: 12_345 } } });
    expect(textsOf(step(1), used, used, step(2))).toEqual(['Step 1', 'Step 2, attempt 2 · 24,690 tokens so far']);
  });

  it('shows tools with short arguments and results on one line each, failures marked', () => {
    const call = (args: never | Record<string, string | number>) =>
      durable({ type: 'llm:tool-call', data: { id: 'call_1_1', messageId, toolName: 'grep', args, callId: 'c' } });
    const result = (sanitized: string, success = true) =>
      durable({
        type: 'llm:tool-result',
        data: { id: 'call_1_1', messageId, toolName: 'grep', callId: 'c', success, sanitized },
      });
    expect(textsOf(call({ pattern: 'a\nb', limit: 3 }), result('one\n\ntwo\nthree'), result('no', false))).toEqual([
      '→ grep pattern: a b, limit: 3',
      '← grep one (+2 lines)',
      '✗ grep no',
    ]);
    const [long = ''] = textsOf(call({ content: 'word '.repeat(100) }));
    expect(long.length).toBeLessThan(100);
    expect(long.endsWith('…')).toBe(true);
  });

  it('tells reasoning from text', () => {
    const pieces = piecesOf(
      chunk({ offset: 0, content: 'hm', chunkType: 'reasoning' }),
      chunk({ offset: 2, content: 'm', chunkType: 'reasoning' }),
      chunk({ offset: 3, content: 'Yes' }),
    );
    expect(pieces).toEqual([
      { kind: 'stream', tone: 'dim', text: 'thinks: hm' },
      { kind: 'stream', tone: 'dim', text: 'm' },
      { kind: 'stream', tone: 'plain', text: 'Yes' },
    ]);
  });

  it('says when a waiting message was taken up, and nothing of the one that started the run', () => {
    const taken = (id: string) =>
      durable({ type: 'message:dequeued', data: { count: 1, ids: [id], coalesced: false } }, 3);
    const queued = durable({ type: 'message:queued', data: { id: 'msg_late', position: 1 } }, 1);
    const [only = '', ...others] = textsOf(taken('msg_first'), queued, taken('msg_late'));
    expect(only).toContain('taken up after 2.0 s');
    expect(others).toEqual([]);
  });

  it('names the calls that wait for somebody, by the ids that answer them', () => {
    const call = { id: 'call_2_1', kind: 'approval', messageId, toolName: 'bash', args: { command: 'rm x' } } as const;
    const waits = durable({ type: 'run:requires-action', data: { runId, calls: [call] } });
    expect(textsOf(waits)).toEqual(['? bash command: rm x waits for an approval: call_2_1']);
  });

  it('tells what a compaction made of the context', () => {
    const compressed = durable({
      type: 'context:compressed',
      data: {
        originalTokens: 96_000,
        compressedTokens: 30_000,
        originalMessages: 80,
        compressedMessages: 12,
        strategy: 'reactive-overflow',
        reason: 'threshold',
      },
    });
    expect(textsOf(compressed)).toEqual(['context compressed: 96,000 → 30,000 tokens']);
  });

  it('tells why a step is tried again, and that a text it has shown is void', () => {
    const reset = durable({ type: 'step:reset', data: { runId, step: 1, messageId } });
    const error = { code: 'overloaded', message: 'Too much.' } as const;
    const retrying = durable({
      type: 'step:retrying',
      data: { runId, step: 1, attempt: 1, error, nextAttemptAt: at(4) },
    });
    expect(textsOf(reset, retrying)).toEqual(['overloaded: Too much; the next attempt is in 4.0 s']);
    expect(textsOf(chunk({ offset: 0, content: 'Half' }), reset)).toEqual([
      'Half',
      'the answer broke off; the step starts again',
    ]);
  });
});

describe('the tally', () => {
  const dequeued = (id: string, inRun: string): StreamEvent => ({
    seq: 1,
    runId: inRun,
    createdAt: at(0),
    type: 'message:dequeued',
    data: { count: 1, ids: [id], coalesced: false },
  });
  const ended = (event: NewEvent): StreamEvent => durable(event);
  const completed = (id: string) => ended({ type: 'run:completed', data: { runId: id, finishReason: 'stop' } });
  const tallyOf = (...items: readonly StreamEvent[]): Tally => items.reduce(tallyEvent, NOTHING_YET);

  it('counts durable events only', () => {
    const usage = { ...NO_USAGE, inputTokens: 5, cacheReadTokens: 3, outputTokens: 2, totalTokens: 7 };
    const used = durable({ type: 'usage:updated', data: { runId, usage } });
    const tally = tallyOf(chunk({ offset: 0, content: 'x' }), used, used);
    expect(tally).toMatchObject({ events: 2, inputTokens: 10, cacheReadTokens: 6, outputTokens: 4, ended: null });
  });

  it('is over with the run, unless a message waits that will start another one', () => {
    const first = [dequeued('msg_task', 'run_1'), completed('run_1')];
    expect(isOver(tallyOf(...first), null)).toBe(true);
    expect(isOver(tallyOf(...first), 'msg_late')).toBe(false);
    const second = [...first, dequeued('msg_late', 'run_2')];
    expect(isOver(tallyOf(...second), 'msg_late')).toBe(false);
    expect(isOver(tallyOf(...second, completed('run_2')), 'msg_late')).toBe(true);
    const failed = ended({ type: 'run:failed', data: { runId, error: { code: 'auth', message: 'no' } } });
    expect(isOver(tallyOf(failed), 'msg_parked')).toBe(true);
  });
});

describe('the printer', () => {
  function printed(options: { isTTY: boolean; columns?: number }, ...pieces: readonly Piece[]): string {
    let text = '';
    const output = new Writable({
      write(data, _encoding, done) {
        text += String(data);
        done();
      },
    });
    const printer = createPrinter(Object.assign(output, options));
    printer.print(...pieces);
    printer.end();
    return text;
  }
  const stream = (text: string): Piece => ({ kind: 'stream', tone: 'plain', text });

  it('writes whole plain lines where nobody watches', () => {
    const pieces = [stream('Hello wor'), stream('ld\n  code'), { kind: 'line', tone: 'good', text: 'done' } as const];
    expect(printed({ isTTY: false }, ...pieces)).toBe('  Hello world\n    code\n  done\n');
  });

  it('wraps words at the width of the terminal, wherever the stream was cut', () => {
    const text = 'The quick brown fox jumps\n\n- over';
    const expected = '  The quick brown\n  fox jumps\n\n  - over\n';
    expect(printed({ isTTY: true, columns: 20 }, stream(text))).toBe(expected);
    expect(printed({ isTTY: true, columns: 20 }, ...[...text].map(stream))).toBe(expected);
  });

  it('lets nothing through that could move the cursor or change the colours', () => {
    const evil = 'a\u001b[2Jb\u0007c\rd';
    expect(printed({ isTTY: false }, stream(evil), { kind: 'line', tone: 'plain', text: evil })).toBe(
      '  abcd\n  abcd\n',
    );
  });
});
