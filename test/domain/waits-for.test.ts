import { expect, test } from 'vitest';
import { type WaitingRun, waitOf } from '../../src/domain/run/waits-for.ts';

const now = new Date('2026-01-31T12:00:00Z');
const before = new Date('2026-01-31T11:59:00Z');
const later = new Date('2026-01-31T12:01:00Z');

const running: WaitingRun = {
  status: 'running',
  pendingKind: 'step',
  pendingAt: before,
  isClaimed: true,
  throttledAt: null,
  approvalExpiresAt: null,
  calls: [],
};
const none = { toolNames: [], count: 0 };

test.each<[string, Partial<WaitingRun>, ReturnType<typeof waitOf>]>([
  ['a step that a worker has waits for nothing', {}, null],
  ['nor does a run that has ended', { status: 'completed', isClaimed: false }, null],
  ['nor one without pending work', { pendingKind: null, isClaimed: false }, null],
  [
    'a compaction comes first',
    { pendingKind: 'compaction' },
    { kind: 'compaction', since: before, until: null, ...none },
  ],
  ['a prune comes first', { pendingKind: 'prune' }, { kind: 'prune', since: before, until: null, ...none }],
  ['no worker has it', { status: 'queued', isClaimed: false }, { kind: 'worker', since: before, until: null, ...none }],
  [
    'all slots of the tenant are taken',
    { isClaimed: false, throttledAt: now },
    { kind: 'slot', since: now, until: null, ...none },
  ],
  [
    'the provider gets a pause',
    { isClaimed: false, pendingAt: later },
    { kind: 'retry', since: null, until: later, ...none },
  ],
  [
    'calls require an action, each tool is named once',
    {
      status: 'requires_action',
      isClaimed: false,
      approvalExpiresAt: later,
      calls: [
        { kind: 'approval', toolName: 'bash' },
        { kind: 'output', toolName: 'ask' },
        { kind: 'approval', toolName: 'bash' },
      ],
    },
    { kind: 'approval', since: before, until: later, toolNames: ['bash', 'ask'], count: 3 },
  ],
  ['its last call was answered just now', { status: 'requires_action', isClaimed: false }, null],
])('%s', (_name, run, wait) => {
  expect(waitOf({ ...running, ...run }, now)).toEqual(wait);
});
