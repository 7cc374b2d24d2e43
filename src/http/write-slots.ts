/**
 * Limits the writes per round of the event loop: further streams wait in the order in which they asked. So other
 * requests are served in between, however many readers get the same event.
 * @returns a function that returns null if the stream may write at once
 */
export function createWriteSlots(perRound: number): () => Promise<void> | null {
  const waiting: (() => void)[] = [];
  let admittedCount = 0;
  let isCounting = false;

  function give(): void {
    admittedCount += 1;
    if (isCounting) return;
    isCounting = true;
    setImmediate(() => {
      isCounting = false;
      admittedCount = 0;
      for (const goOn of waiting.splice(0, perRound)) {
        give();
        goOn();
      }
    });
  }

  return () => {
    if (admittedCount >= perRound) return new Promise((resolve) => waiting.push(resolve));
    give();
    return null;
  };
}
