export type LineBudgetOptions = Readonly<{
  maxLines: number;
  perMs: number;
  onLine: (line: string) => void;
  /** So many lines were not told. */
  onLeftOut: (lines: number) => void;
}>;

export type LineBudget = Disposable &
  Readonly<{
    push: (line: string) => void;
  }>;

/**
 * Tells the first lines of each span of time, which begins with a line, and at its end how many others there were.
 * Disposing it tells that at once. What it waits for keeps no process alive.
 */
export function createLineBudget({ maxLines, perMs, onLine, onLeftOut }: LineBudgetOptions): LineBudget {
  let timer: NodeJS.Timeout | null = null;
  let lines = 0;
  const close = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const leftOut = lines - maxLines;
    lines = 0;
    if (leftOut > 0) onLeftOut(leftOut);
  };
  return {
    push(line) {
      timer ??= setTimeout(close, perMs).unref();
      lines += 1;
      if (lines <= maxLines) onLine(line);
    },
    [Symbol.dispose]: close,
  };
}
