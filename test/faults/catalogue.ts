import type { Fault } from './fault.ts';
import { ANSWERS } from './strikes/answers.ts';
import { CHILDREN } from './strikes/children.ts';
import { EDGES } from './strikes/edges.ts';
import { GOING_BACK } from './strikes/going-back.ts';
import { HANGS } from './strikes/hangs.ts';
import { JOBS } from './strikes/jobs.ts';
import { KILLS } from './strikes/kills.ts';
import { LIMITS } from './strikes/limits.ts';
import { MAINTENANCE } from './strikes/maintenance.ts';
import { PEOPLE } from './strikes/people.ts';
import { PROVIDER } from './strikes/provider.ts';
import { STARTS } from './strikes/starts.ts';
import { STORES } from './strikes/stores.ts';
import { WIDE_TREES } from './strikes/wide-trees.ts';

/** Every kind of harm that the product must survive. */
export const FAULTS: readonly Fault[] = [
  ...PEOPLE,
  ...KILLS,
  ...LIMITS,
  ...MAINTENANCE,
  ...ANSWERS,
  ...HANGS,
  ...STORES,
  ...STARTS,
  ...GOING_BACK,
  ...JOBS,
  ...PROVIDER,
  ...EDGES,
  ...CHILDREN,
  ...WIDE_TREES,
];

/** Names for rows that are asked for together. */
export const GROUPS: ReadonlyMap<string, readonly Fault[]> = new Map([
  ['children', [...CHILDREN, ...WIDE_TREES]],
  ['edges', EDGES],
]);
