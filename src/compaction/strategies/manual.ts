import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';

/** The same summary, but only on request. */
export const manual: Strategy = { ...auto, name: 'manual' };
