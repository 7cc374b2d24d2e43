import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';

/** The same summary, but early and with a longer tail: the meter has its thresholds (50 %, keep 30 %). */
export const proactiveThreshold: Strategy = { ...auto, name: 'proactive-threshold' };
