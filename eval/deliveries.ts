import type { Recording } from '../simulator/recording.ts';
import { ReplayError } from './replay-error.ts';

/**
 * User messages that are sent together, and when:
 *
 * - `opening`: before any worker runs, so that they wait together.
 * - `during`: while the reply of step `step` is held, so that the session is busy for certain.
 * - `idle`: when the run has ended.
 */
export type Delivery = Readonly<{ texts: readonly string[] }> &
  (Readonly<{ when: 'opening' | 'idle' }> | Readonly<{ when: 'during'; step: number; gate: string }>);

/** How a recording is sent to the service. Steps count from 0. */
export type DeliveryPlan = Readonly<{
  deliveries: readonly Delivery[];
  /** The gate that holds a step's reply, where messages are sent during it. */
  gateFor: (step: number) => string | undefined;
  /** The service asks once more than the recording answers: it ends with a user message or with tool calls. */
  asksOnceMore: boolean;
}>;

/**
 * Decides when each user message is sent. One that follows tool calls was sent to a busy session. Several in a row
 * after a step without tool calls are sent during that step, so that waiting messages meet the end of a run.
 * @throws ReplayError `no_user_message` when the recording does not begin with a user message
 */
export function planDeliveries(recording: Recording): DeliveryPlan {
  const deliveries: Delivery[] = [];
  const gates = new Map<number, string>();
  let step = -1;
  let hadCalls = false;
  let texts: string[] = [];
  const flush = (): void => {
    if (texts.length === 0) return;
    if (step < 0) {
      deliveries.push({ texts, when: 'opening' });
    } else if (hadCalls || texts.length > 1) {
      const gate = `after-step-${step}`;
      gates.set(step, gate);
      deliveries.push({ texts, when: 'during', step, gate });
    } else {
      deliveries.push({ texts, when: 'idle' });
    }
    texts = [];
  };
  for (const entry of recording.entries) {
    if (entry.type === 'user') {
      texts.push(entry.text);
      continue;
    }
    flush();
    step += 1;
    hadCalls = entry.toolCalls.length > 0;
  }
  const asksOnceMore = hadCalls || texts.length > 0;
  flush();
  if (deliveries[0]?.when !== 'opening') {
    throw new ReplayError('no_user_message', 'The recording does not begin with a user message.');
  }
  return { deliveries, gateFor: (index) => gates.get(index), asksOnceMore };
}
