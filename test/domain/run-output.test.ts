import { describe, expect, it } from 'vitest';
import { EVENT_SCHEMAS } from '../../src/domain/run/events.ts';
import { planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import { runOutputOf, toldOutput } from '../../src/domain/run/run-output.ts';
import type { Part } from '../../src/domain/transcript/message.ts';

const MESSAGE = '018f2b5c-0000-7000-8000-000000000002';
const FILE = { mediaType: 'image/png', url: '@blob:blob_1', sizeBytes: 3 };
const PARTS: readonly Part[] = [
  { type: 'step-start' },
  { type: 'reasoning', text: 'Hm.' },
  { type: 'text', text: 'It is ', providerMetadata: { openai: { id: 'x' } } },
  { type: 'file', ...FILE, providerMetadata: { openai: { id: 'y' } } },
  { type: 'text', text: 'there.' },
];
const output = runOutputOf(MESSAGE, PARTS);

const outcome = (more: Partial<StepOutcome>): StepOutcome => ({
  runId: '018f2b5c-0000-7000-8000-000000000001',
  stepNo: 2,
  stepsBefore: 1,
  maxSteps: 9,
  finishReason: 'stop',
  toolCalls: 0,
  result: { kind: 'answered' },
  output,
  ...more,
});

describe('the answer of a run', () => {
  it('is the text and the files of a message, without what the provider said about them', () => {
    expect(output).toEqual({ messageId: `msg_${MESSAGE.replaceAll('-', '')}`, text: 'It is there.', files: [FILE] });
  });

  it.each<[string, Partial<StepOutcome>, string]>([
    ['an answer', {}, 'run:completed'],
    ['a limit', { toolCalls: 1, maxSteps: 2 }, 'run:incomplete'],
    ['a final answer', { finalAnswerFor: 'budget' }, 'run:incomplete'],
  ])('is told with the end after %s', (_name, more, type) => {
    const { otherwise } = planNext(outcome(more));
    const [event] = otherwise.events.filter((each) => each.type === type);
    expect(event?.data).toMatchObject({ output });
    expect(EVENT_SCHEMAS[type as 'run:completed'].safeParse(event?.data).error).toBeUndefined();
  });

  it('is told with an end by an answer that a cancel came after, and not with a cancel', () => {
    expect(planNext(outcome({})).ifCancelled.events).toMatchObject([{ data: { lateCancel: true, output } }]);
    expect(planNext(outcome({ toolCalls: 1 })).ifCancelled.events).toEqual([]);
  });

  it('of more than 16 KiB is not told but referred to', () => {
    const large = { ...output, text: 'ä'.repeat(8_200) };
    const { messageId } = output;
    const contentRef = { sizeBytes: expect.any(Number), href: '/v1/runs/run_1' };
    expect(toldOutput('run_1', large)).toEqual({ messageId, contentRef });
    expect(toldOutput('run_1', { ...output, text: 'ä'.repeat(8_000) })).toHaveProperty('text');
  });
});
