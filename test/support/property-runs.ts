import fc from 'fast-check';

/** The number of tries of each property. More tries find more errors: BATON_TEST_RUNS=1000 takes a night. */
export const DEFAULT_RUNS = 50;
const RUNS = Number(process.env['BATON_TEST_RUNS'] ?? DEFAULT_RUNS);

fc.configureGlobal({ numRuns: RUNS });

/** @param share of the usual runs, for a property whose single run is costly */
export const propertyRuns = (share: number): number => Math.ceil(RUNS * share);
