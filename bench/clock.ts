const NS_PER_MS = 1e6;

/** Milliseconds of the machine's monotonic clock (CLOCK_MONOTONIC), which is the same in all processes. */
export const machineNowMs = (): number => Number(process.hrtime.bigint()) / NS_PER_MS;
