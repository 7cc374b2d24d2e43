import type { Strategy } from '../strategy.ts';
import { reactiveOverflow } from './reactive-overflow.ts';

/** The same summary, but never by a threshold: somebody asks for it, or the request does not fit any more. */
export const manual: Strategy = { ...reactiveOverflow, name: 'manual' };
