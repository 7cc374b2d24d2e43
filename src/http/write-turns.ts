/**
 * A stream asks before it writes: so many may write in one turn of the event loop, the others follow in the order in
 * which they have asked. Requests that came meanwhile are served in between, however many readers are told the same.
 * @returns a function that returns null where the stream may write at once
 */
export function createWriteTurns(perTurn: number): () => Promise<void> | null {
  const waiting: (() => void)[] = [];
  let given = 0;
  let isCounting = false;

  function give(): void {
    given += 1;
    if (isCounting) return;
    isCounting = true;
    setImmediate(() => {
      isCounting = false;
      given = 0;
      for (const goOn of waiting.splice(0, perTurn)) {
        give();
        goOn();
      }
    });
  }

  return () => {
    if (given >= perTurn) return new Promise((resolve) => waiting.push(resolve));
    give();
    return null;
  };
}
