/** A tab that is looked away from for a moment keeps its streams. */
const HIDDEN_MS = 15_000;

/**
 * Runs a stream while the page is in sight. A browser has six connections to a service for all of its tabs: hidden ones
 * that kept theirs would take them from the others. The stream begins anew when the page is seen again.
 * @param stream resolves when its signal aborts. Its rejection is passed on
 */
export async function whileVisible(signal: AbortSignal, stream: (signal: AbortSignal) => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await untilVisible(signal);
    if (signal.aborted) return;
    const hidden = new AbortController();
    const stop = abortWhenHidden(hidden);
    try {
      await stream(AbortSignal.any([signal, hidden.signal]));
    } finally {
      stop();
    }
    if (!hidden.signal.aborted) return;
  }
}

function untilVisible(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const over = new AbortController();
  document.addEventListener('visibilitychange', () => !document.hidden && resolve(), { signal: over.signal });
  signal.addEventListener('abort', () => resolve(), { signal: over.signal });
  return promise.finally(() => over.abort());
}

function abortWhenHidden(hidden: AbortController): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => hidden.abort(), HIDDEN_MS);
  };
  document.addEventListener('visibilitychange', look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', look);
  };
}
