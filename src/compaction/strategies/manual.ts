import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';

/** The same summary, but only where somebody asks for it. */
export const manual: Strategy = { ...auto, name: 'manual' };
