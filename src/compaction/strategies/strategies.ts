import type { StrategyName } from '../../domain/context/policy.ts';
import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';
import { manual } from './manual.ts';
import { middleRemoval } from './middle-removal.ts';
import { proactiveThreshold } from './proactive-threshold.ts';
import { pruningAgent } from './pruning-agent.ts';
import { reactiveOverflow } from './reactive-overflow.ts';

/** Every strategy by its name. */
export const STRATEGY: Readonly<Record<StrategyName, Strategy>> = {
  auto,
  'reactive-overflow': reactiveOverflow,
  'proactive-threshold': proactiveThreshold,
  'middle-removal': middleRemoval,
  'pruning-agent': pruningAgent,
  manual,
};
