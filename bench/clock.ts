const NS_PER_MS = 1e6;

/** Milliseconds of the machine's steady clock, which all processes read alike (CLOCK_MONOTONIC). */
export const machineNowMs = (): number => Number(process.hrtime.bigint()) / NS_PER_MS;
