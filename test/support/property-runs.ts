import fc from 'fast-check';

/** How often each property is tried. More find more: BATON_TEST_RUNS=1000 takes a night. */
const RUNS = Number(process.env['BATON_TEST_RUNS'] ?? 50);

fc.configureGlobal({ numRuns: RUNS });

/** @param share of the usual runs, for a property of which one run is dear */
export const propertyRuns = (share: number): number => Math.ceil(RUNS * share);
