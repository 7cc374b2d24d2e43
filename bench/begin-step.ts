import { NO_BUDGET } from '../src/domain/run/budget.ts';
import type { JobPayload } from '../src/domain/run/job.ts';
import { newId } from '../src/platform/new-id.ts';
import { assessStep, type StepContext } from '../src/step/step-context.ts';
import type { Db } from '../src/store/db/database.ts';
import { type ClaimedRun, claimRun } from '../src/store/work/claims.ts';
import { createToolCatalogue } from '../src/tools/catalogue.ts';
import { createWorkspaceTools } from '../src/tools/workspace/workspace-tools.ts';
import { MODEL_ENTRY } from './coding-session.ts';
import { AGENT } from './stored-session.ts';

type BegunStep = Readonly<{ claim: ClaimedRun; context: StepContext }>;

/** The part of a step before the model call: claim with the view, measure, decide. */
export type BeginStep = (job: JobPayload, claimId: string, messageId: string) => Promise<BegunStep>;

/** Begins steps by the functions that the worker uses. No model is called. */
export function createBeginStep(db: Db): BeginStep {
  const workerId = newId();
  const deps = {
    db,
    describeModel: async () => MODEL_ENTRY,
    modelCheck: { hasCostQuota: false },
    models: (name: string) => ({
      model: name,
      provider: 'anthropic',
      modelId: name,
      protocol: 'anthropic-messages' as const,
      endpoint: 'bench',
      credential: 'bench',
      providerOptions: () => ({}),
    }),
    toolsOf: createToolCatalogue({ sets: { workspace: createWorkspaceTools({ root: '.' }) } }),
    log: () => undefined,
  };
  return async (job, claimId, messageId) => {
    const claim = await claimRun(db, { job, claimId, workerId, leaseDurationMs: 3_600_000, messageId });
    if (claim.outcome !== 'claimed' || claim.view === null || claim.messageSeq === null) {
      throw new Error(`the step was not begun: ${claim.outcome}`);
    }
    const scope = {
      sessionId: claim.session.id,
      runId: job.runId,
      stepNo: job.no,
      attempt: claim.run.attempt,
      agent: AGENT,
      budget: NO_BUDGET,
      contextState: claim.session.contextState,
      finalAnswerFor: null,
      output: null,
      tenantId: claim.session.tenantId,
    };
    const begun = { messageId, messageSeq: claim.messageSeq, view: claim.view };
    return { claim, context: await assessStep(deps, scope, begun) };
  };
}
