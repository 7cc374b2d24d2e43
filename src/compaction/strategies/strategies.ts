import { isModuleStrategy, type STRATEGIES, type StrategyName } from '../../domain/context/limits/policy.ts';
import type { LoadCompactor } from '../load-compactor.ts';
import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';
import { manual } from './manual.ts';
import { middleRemoval } from './middle-removal.ts';
import { moduleStrategy } from './module-strategy.ts';
import { proactiveThreshold } from './proactive-threshold.ts';
import { pruningAgent } from './pruning-agent.ts';
import { reactiveOverflow } from './reactive-overflow.ts';

const STRATEGY: Readonly<Record<(typeof STRATEGIES)[number], Strategy>> = {
  auto,
  'reactive-overflow': reactiveOverflow,
  'proactive-threshold': proactiveThreshold,
  'middle-removal': middleRemoval,
  'pruning-agent': pruningAgent,
  manual,
};

/** A module is loaded when its strategy is executed. */
export const strategyOf = (name: StrategyName, loadCompactor: LoadCompactor): Strategy =>
  isModuleStrategy(name) ? moduleStrategy(name, () => loadCompactor(name)) : STRATEGY[name];
