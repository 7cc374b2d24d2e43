import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Wrong keys that one address may try per minute. The first so many are answered at once. */
const PER_MINUTE = 60;
const COST_MS = 60_000 / PER_MINUTE;
const AT_ONCE_MS = 60_000;
/** Each further answer is delayed more, up to this. */
const MAX_DELAY_MS = 5_000;

/** With more addresses than this, those that were idle longest are forgotten. */
const MAX_ADDRESSES = 10_000;

/** Most answers that are delayed at the same time. */
const MAX_DELAYED = 1_000;

export type WrongKeys = Readonly<{
  /**
   * Delays the answer to a wrong key if its address has sent many. Resolves early when the signal aborts.
   * @returns false: too many answers are delayed already
   */
  slowDown: (address: string, signal: AbortSignal) => Promise<boolean>;
}>;

export type WrongKeysOptions = Readonly<{
  nowMs?: () => number;
  wait?: (durationMs: number, signal: AbortSignal) => Promise<void>;
}>;

const waitFor = (durationMs: number, signal: AbortSignal): Promise<void> =>
  delay(durationMs, undefined, { signal, ref: false }).catch(() => undefined);

/**
 * Slows down clients that guess keys. Only answers to wrong keys wait, never a look-up: a valid key from the same
 * address, of a proxy or of a network, is let in at once.
 */
export function createWrongKeys({ nowMs = () => performance.now(), wait = waitFor }: WrongKeysOptions = {}): WrongKeys {
  /** By address: the time when all its wrong keys are forgiven. */
  const forgivenAt = new Map<string, number>();
  let delayed = 0;
  return {
    async slowDown(address, signal) {
      const name = networkOf(address);
      const now = nowMs();
      const owed = Math.max(0, (forgivenAt.get(name) ?? 0) - now) + COST_MS;
      forgivenAt.delete(name);
      forgivenAt.set(name, now + Math.min(owed, AT_ONCE_MS + MAX_DELAY_MS));
      for (const oldest of forgivenAt.keys()) {
        if (forgivenAt.size <= MAX_ADDRESSES) break;
        forgivenAt.delete(oldest);
      }
      const durationMs = Math.min(owed - AT_ONCE_MS, MAX_DELAY_MS);
      if (durationMs <= 0) return true;
      if (delayed >= MAX_DELAYED) return false;
      delayed++;
      try {
        await wait(durationMs, signal);
      } finally {
        delayed--;
      }
      return true;
    },
  };
}

/** A client with one IPv6 address has all of its /64, so these share a count. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes('.')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  const all = [...groups, ...Array.from({ length: missing }, () => '0'), ...(tail ?? '').split(':')];
  return all.slice(0, 4).join(':');
}
