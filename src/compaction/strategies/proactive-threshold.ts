import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';

/** The same summary, but early and with a longer tail: its thresholds (50 %, keep 30 %) are the meter's. */
export const proactiveThreshold: Strategy = { ...auto, name: 'proactive-threshold' };
