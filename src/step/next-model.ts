import { whyUnpriced } from '../agents/cost-limit.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { BatonError } from '../domain/errors.ts';
import { attemptsBefore, MAX_PROVIDER_WAIT_MS, switchReason } from '../domain/model/fallback.ts';
import type { NextModel } from '../domain/run/next-step.ts';
import type { SwitchReason } from '../domain/run/run.ts';
import type { ModelFailure } from '../model/model-error.ts';
import type { StepDeps } from './deps.ts';
import { costLimitsOf } from './step-context.ts';

type Scope = Pick<JobScope, 'agent' | 'attempt' | 'budget' | 'modelPosition'>;

/** The attempt at the step with this model, from 1. Attempts with earlier models do not count against it. */
export const attemptWithModel = ({ attempt, modelPosition }: Scope): number =>
  Math.max(1, attempt - attemptsBefore(modelPosition));

/** The model with which the run goes on after a failure. Null: it stays with its own, or there is no other. */
export async function nextModelAfter(deps: StepDeps, scope: Scope, failure: ModelFailure): Promise<NextModel | null> {
  const reason = switchReason(failure.class, attemptWithModel(scope), failure.retryAfterMs);
  return reason === null ? null : nextModel(deps, scope, reason);
}

/** The model that is asked while the provider of this one is paused for long. Null: the step waits. */
export async function nextModelAtPause(deps: StepDeps, scope: Scope, pausedMs: number): Promise<NextModel | null> {
  return pausedMs > MAX_PROVIDER_WAIT_MS ? nextModel(deps, scope, 'rate_limited') : null;
}

/** The next model of the agent that can be asked: its provider is configured, and a cost limit knows its prices. */
export async function nextModel(deps: StepDeps, scope: Scope, reason: SwitchReason): Promise<NextModel | null> {
  const { agent, modelPosition } = scope;
  const rest = (agent.fallbacks ?? []).slice(modelPosition);
  for (const [index, to] of rest.entries()) {
    if (await canBeAsked(deps, scope, to)) {
      return { position: modelPosition + 1 + index, from: agent.model, to, reason };
    }
  }
  return null;
}

async function canBeAsked(deps: StepDeps, scope: Scope, model: string): Promise<boolean> {
  try {
    const { prices } = await deps.describeModel(deps.models(model));
    return prices !== null || whyUnpriced(model, costLimitsOf(deps, scope)) === null;
  } catch (error) {
    if (error instanceof BatonError && error.code === 'model_unavailable') return false;
    throw error;
  }
}
