import type { ViewMessage } from './message.ts';

/**
 * A pure function of one message, worked out once for each. The view of a step shares its messages with that of the
 * step before, and a long view is looked through in every step.
 */
export function onceForMessage<T>(of: (message: ViewMessage) => T): (message: ViewMessage) => T {
  const cache = new WeakMap<ViewMessage, Readonly<{ value: T }>>();
  return (message) => {
    const found = cache.get(message);
    if (found !== undefined) return found.value;
    const value = of(message);
    cache.set(message, { value });
    return value;
  };
}
