import type { Recording } from '../simulator/recording.ts';
import { ReplayError } from './replay-error.ts';

/**
 * User messages that are sent together, and when:
 * - `opening`: before any worker runs, so that they wait together.
 * - `during`: while the reply of step `step` is held, so that the session is busy for certain.
 * - `idle`: after the run has ended.
 */
export type Delivery = Readonly<{ texts: readonly string[] }> &
  (Readonly<{ when: 'opening' | 'idle' }> | Readonly<{ when: 'during'; step: number; gate: string }>);

/** The plan by which a recording is sent to the service. Steps count from 0. */
export type DeliveryPlan = Readonly<{
  deliveries: readonly Delivery[];
  /** The gate that holds a step's reply, if messages are sent during it. */
  gateFor: (step: number) => string | undefined;
  /** True: the recording ends with a user message or tool calls, so the service asks once more than it answers. */
  asksOnceMore: boolean;
}>;

/**
 * Plans when each user message is sent: to a busy session if it follows tool calls. Several in a row after a step
 * without tool calls are sent during that step, so that messages are queued when the run ends.
 * @throws ReplayError `no_user_message` if the recording does not begin with a user message
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
