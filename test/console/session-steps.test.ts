import { describe, expect, it } from 'vitest';
import type { Child } from '../../console/src/session/children.ts';
import { drawn, lengthMs, phasesOf, toRows } from '../../console/src/session/step-rows.ts';
import type { Run, StepRow } from '../../src/client/client.ts';

const at = (ms: number): string => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();

const call = (state: StepRow['tools'][number]['state'], begin: number | null, end: number | null) => ({
  id: `call_${state}`,
  toolName: 'pay',
  state,
  startedAt: begin === null ? null : at(begin),
  finishedAt: end === null ? null : at(end),
  truncated: false,
});

const STEP = {
  kind: 'step',
  step: 1,
  attempt: 1,
  messageId: 'msg_1',
  seq: 2,
  state: 'completed',
  queuedAt: at(0),
  startedAt: at(100),
  finishedAt: at(700),
  waitedMs: 100,
  claimMs: 10,
  viewMs: 20,
  firstTokenMs: 70,
  streamMs: 100,
  commitMs: 5,
  workers: ['a'],
  tools: [],
} as unknown as StepRow;

const RUN = { id: 'run_1', steps: 1, status: 'completed' } as unknown as Run;

describe('the rows of the waterfall', () => {
  it('have the phases of a step one after another, and its calls side by side, from the time when it was due', () => {
    const tools = [call('completed', 320, 420), call('unknown', 330, null)];
    const phases = phasesOf({ ...STEP, tools }, 0);
    expect(phases.map(({ kind, startMs, durationMs, lane }) => [kind, startMs, durationMs, lane])).toEqual([
      ['wait', 0, 100, 0],
      ['own', 100, 10, 0],
      ['own', 110, 20, 0],
      ['first', 130, 70, 0],
      ['stream', 200, 100, 0],
      ['tool', 320, 100, 0],
      ['unknown', 330, 0, 1],
      ['commit', 420, 5, 0],
    ]);
    expect(lengthMs(phases)).toBe(425);
  });

  it('shorten a long wait, and only that', () => {
    const phases = phasesOf({ ...STEP, waitedMs: 60_000, startedAt: at(60_000) }, 0);
    const shown = drawn(phases, 400);
    expect(shown.map(({ startMs }) => startMs)).toEqual([0, 100, 110, 130, 200, 300]);
    expect(lengthMs(shown)).toBe(305);
  });

  it('grow with the time while a step is at work, and where a call waits for a person', () => {
    const open = { ...STEP, finishedAt: null, commitMs: null } as StepRow;
    const now = Date.parse(at(900));
    const working = { ...open, claimMs: null, viewMs: null, firstTokenMs: null, streamMs: null } as StepRow;
    expect(lengthMs(phasesOf(working, now))).toBe(900);
    const asked = phasesOf({ ...open, tools: [call('awaiting_approval', null, null)] } as StepRow, now);
    expect(asked.at(-1)).toMatchObject({ kind: 'asked', startMs: 300, durationMs: 600 });
  });

  it('have the children of a call below its step, which waits for no person while they are at work', () => {
    const tools = [call('awaiting_output', 320, null), call('completed', 320, 420)];
    const child = { callId: tools[0]?.id, status: 'running', session: undefined } as unknown as Child;
    const pages = new Map([['run_1/0', [{ ...STEP, state: 'waiting', tools } as StepRow]]]);
    const children = new Map([[child.callId, child]]);
    const rows = toRows([RUN], pages, children);
    expect(rows.map(({ kind }) => kind)).toEqual(['run', 'step', 'child']);
    expect(rows[1]).toMatchObject({ of: { state: 'running' } });
    const asking = new Map([[child.callId, { ...child, status: 'requires_action' } as Child]]);
    expect(toRows([RUN], pages, asking)[1]).toMatchObject({ of: { state: 'waiting' } });
  });

  it('show both workers of a recovered step, prunes between steps, and placeholders for what is not read', () => {
    const prune = { kind: 'prune', prunedCount: 1, savedTokens: 9, prunedTools: [], at: at(5) } as const;
    const pages = new Map([['run_1/0', [{ ...STEP, workers: ['a', 'b'] } as StepRow, prune]]]);
    expect(toRows([RUN], pages, new Map()).map(({ kind }) => kind)).toEqual(['run', 'step', 'recovery', 'prune']);
    const older = { ...RUN, id: 'run_0', steps: 120 } as Run;
    const rows = toRows([RUN, older], pages, new Map());
    expect(rows.slice(0, 2).map(({ run, kind }) => [run.id, kind])).toEqual([
      ['run_0', 'run'],
      ['run_0', 'missing'],
    ]);
    expect(rows.filter(({ kind }) => kind === 'missing')).toHaveLength(120);
  });
});
