export type LineBudgetOptions = Readonly<{
  maxLines: number;
  perMs: number;
  onLine: (line: string) => void;
  onLeftOut: (lines: number) => void;
}>;

export type LineBudget = Disposable &
  Readonly<{
    push: (line: string) => void;
  }>;

/** Passes on the first `maxLines` of each period and reports the number of dropped lines at its end or on disposal. */
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
