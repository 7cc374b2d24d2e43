import type { Gate } from '../simulator/gates.ts';
import type { ApiClient, Run } from './api-client.ts';
import type { Delivery } from './deliveries.ts';
import { compareValues, type Mismatch } from './mismatch.ts';
import { ReplayError } from './replay-error.ts';

type WatchedRun = Readonly<{ id: string; ended: Promise<Run> }>;

export type Driving = Readonly<{
  client: ApiClient;
  sessionId: string;
  deliveries: readonly Delivery[];
  gate: (name: string) => Gate;
  /** Called once, after the opening messages are queued. */
  startWorker: () => Promise<void>;
  report: (mismatch: Mismatch) => void;
}>;

/**
 * Sends the user messages as planned until the last run has ended, and reports each whose `queued` or `runId` differs
 * from the plan. After an error it cancels the active run.
 * @throws ReplayError `run_ended`, `stalled`, `refused`
 */
export async function drive(driving: Driving): Promise<void> {
  const { client, deliveries, gate, startWorker } = driving;
  let run: WatchedRun | null = null;
  try {
    for (const delivery of deliveries) {
      if (delivery.when === 'during') await heldOrEnded(gate(delivery.gate), run);
      if (delivery.when === 'idle') await idleAfter(driving, run);
      run = await deliver(driving, delivery, run);
      if (delivery.when === 'opening') await startWorker();
      if (delivery.when === 'during') gate(delivery.gate).release();
    }
    await idleAfter(driving, run);
  } catch (error) {
    // An error of the cancel must not hide the first one.
    if (run !== null) await client.cancelRun(run.id, CANCEL_WAIT_MS).catch(() => undefined);
    throw error;
  }
}

const CANCEL_WAIT_MS = 5_000;

async function deliver(driving: Driving, delivery: Delivery, before: WatchedRun | null): Promise<WatchedRun | null> {
  const { client, sessionId, report } = driving;
  let run = delivery.when === 'idle' ? null : before;
  for (const text of delivery.texts) {
    const accepted = await client.send(sessionId, text);
    const { queued, runId } = accepted;
    const at = `message ${JSON.stringify(text.slice(0, 40))} sent ${run === null ? 'to the idle session' : 'during a run'}`;
    const expected = { queued: run !== null, runId: run?.id ?? runId };
    for (const mismatch of compareValues(at, expected, { queued, runId })) report(mismatch);
    if (run?.id !== runId) run = watch(client, runId);
  }
  return run;
}

function watch(client: ApiClient, id: string): WatchedRun {
  const ended = client.waitForEnd(id);
  // Prevents an unhandled rejection if the run is never awaited. Callers that await it still get the error.
  ended.catch(() => undefined);
  return { id, ended };
}

/** Waits for the gate. Rejects if the run ends first, because the gate is then never reached. */
async function heldOrEnded(gate: Gate, run: WatchedRun | null): Promise<void> {
  const ended = run?.ended.then((end) => {
    throw new ReplayError('run_ended', `${describe(end)} before its recorded end.`);
  });
  await Promise.race([gate.reached, ended ?? gate.reached]);
}

async function idleAfter({ client, sessionId }: Driving, run: WatchedRun | null): Promise<void> {
  const end = await run?.ended;
  if (end !== undefined && end.status !== 'completed') throw new ReplayError('run_ended', `${describe(end)}.`);
  await client.waitForIdle(sessionId);
}

function describe({ status, steps, error }: Run): string {
  return `The run ended as ${status} after ${steps} steps${error === null ? '' : ` (${error.code}: ${error.message})`}`;
}
