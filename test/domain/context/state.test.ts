import { describe, expect, it } from 'vitest';
import { contextStateSchema, NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { usageOf } from './measure-view.ts';

describe('what a session knows of its context', () => {
  it('is nothing at first: an empty column is a new session', () => {
    expect(contextStateSchema.parse({})).toEqual(NEW_CONTEXT_STATE);
    expect(NEW_CONTEXT_STATE).toMatchObject({ model: null, anchor: null, pending: null, compactionsSinceStep: 0 });
  });

  it('comes back from the store as it was written', () => {
    const place = { runId: 'run-1', stepNo: 3 };
    const state = {
      model: 'openai/gpt-5.4',
      anchor: { usage: usageOf({ inputTokens: 5 }), messageSeq: 2 },
      calibration: { prior: 1.2, margin: 1.1, realTokens: 10, estimatedTokens: 9 },
      overheadTokens: 700,
      meter: { usedTokens: 9_000, usableTokens: 16_000 },
      pending: { reason: 'overflow', force: true, stripMedia: true },
      compactionsSinceStep: 2,
      failedAtTokens: 9_000,
      failedCompactions: 2,
      floorTokens: 8_000,
      isFloorLogged: true,
      overflow: { ...place, count: 1 },
      streamStop: place,
      outputCap: { ...place, tokens: 400 },
      remedies: { ...place, model: 'simulated/test', changes: [{ kind: 'omit_tool', detail: 'look' }], count: 1 },
    };
    expect(contextStateSchema.parse(JSON.parse(JSON.stringify(state)))).toEqual(state);
  });

  it('may be older than a field that was added: what is missing is as in a new session', () => {
    const pending = { reason: 'manual', force: true };
    expect(contextStateSchema.parse({ compactionsSinceStep: 1, pending })).toEqual({
      ...NEW_CONTEXT_STATE,
      compactionsSinceStep: 1,
      pending: { ...pending, stripMedia: false },
    });
  });

  it.each([{ compactionsSinceStep: -1 }, { pending: { reason: 'boredom', force: true } }, { surprise: 1 }])(
    'is refused as %o rather than half understood',
    (state) => {
      expect(contextStateSchema.safeParse(state).success).toBe(false);
    },
  );
});
