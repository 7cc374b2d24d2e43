import { isModuleStrategy, type STRATEGIES, type StrategyName } from '../../domain/context/limits/policy.ts';
import type { LoadCompactor } from '../load-compactor.ts';
import type { Strategy } from '../strategy.ts';
import { auto } from './auto.ts';
import { middleRemoval } from './middle-removal.ts';
import { moduleStrategy } from './module-strategy.ts';
import { pruningAgent } from './pruning-agent.ts';

/** Three of them write the summary of `auto`: `isStartedBy` and the thresholds of the meter tell them apart. */
const STRATEGY: Readonly<Record<(typeof STRATEGIES)[number], Strategy>> = {
  auto,
  'reactive-overflow': { ...auto, name: 'reactive-overflow' },
  'proactive-threshold': { ...auto, name: 'proactive-threshold' },
  manual: { ...auto, name: 'manual' },
  'middle-removal': middleRemoval,
  'pruning-agent': pruningAgent,
};

/** A module is loaded when its strategy is executed. */
export const strategyOf = (name: StrategyName, loadCompactor: LoadCompactor): Strategy =>
  isModuleStrategy(name) ? moduleStrategy(name, () => loadCompactor(name)) : STRATEGY[name];
