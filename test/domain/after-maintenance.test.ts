import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { planAfterMaintenance } from '../../src/domain/run/after-maintenance.ts';

const RUN = '019aa000-0000-7000-8000-000000000001';
const plan = (runKind: 'task' | 'maintenance', goesOnWith: 'step' | 'compaction') =>
  planAfterMaintenance({ runId: RUN, runKind, stepNo: 7, goesOnWith });

describe('after a compaction or a prune', () => {
  it.each(['step', 'compaction'] as const)('a task run goes on with the %s of the same number', (goesOnWith) => {
    const { ifMessagesWait, otherwise } = plan('task', goesOnWith);
    expect(otherwise).toEqual({ kind: 'continue', pendingKind: goesOnWith, pendingNo: 7, events: [] });
    // The step drains the queued messages.
    expect(ifMessagesWait).toEqual(otherwise);
  });

  it('a maintenance run is done', () => {
    const { ifMessagesWait, otherwise } = plan('maintenance', 'step');
    expect(otherwise).toEqual({
      kind: 'end',
      status: 'completed',
      events: [{ type: 'run:completed', data: { runId: formatId('run', RUN), finishReason: 'stop' } }],
    });
    expect(ifMessagesWait).toEqual(otherwise);
  });

  it.each(['task', 'maintenance'] as const)(
    'a cancelled %s run ends cancelled, and what waits stays parked',
    (kind) => {
      const { ifCancelled } = plan(kind, 'step');
      expect(ifCancelled).toEqual({ kind: 'end', status: 'cancelled', events: [] });
    },
  );
});
