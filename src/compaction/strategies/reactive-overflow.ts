import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';

/** The same summary, but only once the next request does not fit or the provider refuses it for its size. */
export const reactiveOverflow: Strategy = { ...auto, name: 'reactive-overflow' };
