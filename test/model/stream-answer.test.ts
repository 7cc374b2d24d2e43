import type { LanguageModel } from 'ai';
import { describe, expect, it, vi } from 'vitest';
import { type AnswerPart, type StreamedAnswer, streamAnswer } from '../../src/model/stream-answer.ts';

type Model = Exclude<LanguageModel, string>;
type Made = Readonly<{ parts: readonly object[]; ending?: 'close' | 'fail' | 'hang' }>;

const failure = new Error('the provider failed');
const delta = { type: 'text-delta', id: '1', delta: 'Half' };
const usage = { inputTokens: { total: 3 }, outputTokens: { total: 4 } };
const finish = { type: 'finish', finishReason: { unified: 'stop', raw: 'stop' }, usage };

/** A model that knows no abort signal, as one that a program brings with it may be. */
function modelOf({ parts, ending = 'close' }: Made): LanguageModel {
  const stream = () =>
    new ReadableStream({
      start(controller) {
        for (const part of parts) controller.enqueue(part);
        if (ending === 'close') controller.close();
        if (ending === 'fail') controller.error(failure);
      },
    });
  return model(async () => ({ stream: stream(), response: { headers: { 'x-id': '7' } } }));
}

const model = (doStream: () => Promise<unknown>): LanguageModel =>
  // The SDK's types demand more than is asked of a model here.
  ({ specificationVersion: 'v4', provider: 'test', modelId: 'm', supportedUrls: {}, doStream }) as unknown as Model;

const LOOK = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object' as const },
  execute: async () => 'seen',
};
const settings = { maxOutputTokens: 100, providerOptions: {} };
const prompt = { messages: [{ role: 'user' as const, content: 'Hi' }] };

async function asked(
  made: LanguageModel,
  hooks: Readonly<{ onPart?: (part: AnswerPart) => void; onEnd?: () => Promise<void> }> = {},
  signal = new AbortController().signal,
): Promise<StreamedAnswer & { types: string[] }> {
  const types: string[] = [];
  const answer = await streamAnswer(
    { model: made, prompt, tools: [], settings, signal },
    {
      onPart(part) {
        types.push(part.type);
        hooks.onPart?.(part);
      },
      onEnd: hooks.onEnd ?? (() => undefined),
    },
  );
  return { ...answer, types };
}

describe('an answer ends', () => {
  it('when it has more than a process may hold, and its stream is given up', async () => {
    let made = 0;
    let givenUp: unknown;
    // The model goes on far beyond the bound.
    const stream = new ReadableStream({
      pull(controller) {
        made += 1;
        if (made > 30) return controller.error(failure);
        controller.enqueue(made === 1 ? { type: 'text-start', id: '1' } : { ...delta, delta: 'x'.repeat(4_194_304) });
      },
      cancel(reason) {
        givenUp = reason;
      },
    });
    const answer = await asked(model(async () => ({ stream })));
    expect(answer.end).toMatchObject({ kind: 'failed', error: expect.objectContaining({ name: 'RangeError' }) });
    await vi.waitFor(() => expect(givenUp).toBeInstanceOf(RangeError));
    // Another answer finds the room again.
    expect((await asked(modelOf({ parts: [delta, finish] }))).end).toEqual({ kind: 'ended' });
  });

  it('when its stream is read, and has the headers of its response', async () => {
    const answer = await asked(modelOf({ parts: [delta, finish] }));
    expect(answer).toEqual({
      end: { kind: 'ended' },
      headers: { 'x-id': '7' },
      types: ['text-delta', 'model-call-end'],
    });
  });

  it('when the model has said so, although its connection stays open', async () => {
    const answer = await asked(modelOf({ parts: [delta, finish], ending: 'hang' }));
    expect(answer).toMatchObject({ end: { kind: 'ended' }, types: ['text-delta', 'model-call-end'] });
  });

  it('when the model has said so, although its connection breaks then', async () => {
    let pulls = 0;
    const stream = new ReadableStream({
      pull(controller) {
        if (++pulls === 1) controller.enqueue(finish);
        else controller.error(failure);
      },
    });
    const answer = await asked(model(async () => ({ stream })));
    expect(answer).toMatchObject({ end: { kind: 'ended' }, types: ['model-call-end'] });
  });

  it('as failed when it called a tool that it had to leave alone', async () => {
    const call = { type: 'tool-call', toolCallId: 'c', toolName: 'look', input: '{}' };
    const calling = modelOf({ parts: [call, finish], ending: 'hang' });
    const { end } = await streamAnswer(
      { model: calling, prompt, tools: [LOOK], toolChoice: 'none', settings, signal: new AbortController().signal },
      { onPart: () => undefined, onEnd: () => undefined },
    );
    expect(end).toMatchObject({ kind: 'failed', error: { name: 'AI_ToolChoiceViolationError' } });
  });

  it('as failed when the stream breaks off, after the parts that came before', async () => {
    const { end, types } = await asked(modelOf({ parts: [], ending: 'fail' }));
    expect(end).toEqual({ kind: 'failed', error: failure });
    expect(types).toEqual([]);
  });

  it('as failed without headers when the model cannot be asked', async () => {
    const refused = await asked(model(() => Promise.reject(failure)));
    expect(refused).toEqual({ end: { kind: 'failed', error: failure }, headers: null, types: [] });
  });

  it('as failed by the first of several errors: the later ones only follow from it', async () => {
    const errors = [failure, new Error('second')].map((error) => ({ type: 'error', error }));
    expect((await asked(modelOf({ parts: errors }))).end).toEqual({ kind: 'failed', error: failure });
  });
});

describe('an abort ends it', () => {
  it('before the model has answered at all', async () => {
    const stop = new AbortController();
    const answering = asked(
      model(() => {
        stop.abort(new Error('stop'));
        return new Promise(() => undefined);
      }),
      {},
      stop.signal,
    );
    expect(await answering).toMatchObject({ end: { kind: 'aborted' }, headers: null });
  });

  it('before it is asked', async () => {
    const { end } = await asked(modelOf({ parts: [delta, finish] }), {}, AbortSignal.abort());
    expect(end).toEqual({ kind: 'aborted' });
  });

  it('while the model is silent, and no part follows', async () => {
    const stop = new AbortController();
    const onPart = () => stop.abort(new Error('stop'));
    const { end, types } = await asked(modelOf({ parts: [delta, delta], ending: 'hang' }), { onPart }, stop.signal);
    expect(end).toEqual({ kind: 'aborted' });
    expect(types).toEqual(['text-delta']);
  });

  it('while the whole answer is still being written', async () => {
    const stop = new AbortController();
    const written = Promise.withResolvers<void>();
    const onEnd = () => {
      stop.abort(new Error('stop'));
      return written.promise;
    };
    const { end } = await asked(modelOf({ parts: [delta, finish] }), { onEnd }, stop.signal);
    written.resolve();
    expect(end).toEqual({ kind: 'aborted' });
  });

  it('not once it is read', async () => {
    const stop = new AbortController();
    const { end } = await asked(modelOf({ parts: [finish] }), {}, stop.signal);
    stop.abort();
    expect(end).toEqual({ kind: 'ended' });
  });
});
