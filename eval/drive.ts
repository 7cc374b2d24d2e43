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
  /** Called once, when the opening messages wait. */
  startWorker: () => Promise<void>;
  report: (mismatch: Mismatch) => void;
}>;

/**
 * Sends the user messages as planned, one delivery after the other, until the last run has ended. Whether each message
 * was queued or started a run is checked and reported. A run that is still active when this fails is cancelled.
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
    // The first error is the one to tell.
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
  // Whoever awaits it gets the rejection; nobody may come to that.
  ended.catch(() => undefined);
  return { id, ended };
}

/** Waits for the gate; a run that ends instead would be waited for in vain. */
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
