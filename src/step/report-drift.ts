import type { JobDeps } from '../claims/job-deps.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { afterEvent } from '../commands/after-commit.ts';
import { BatonError } from '../domain/errors.ts';
import type { ToolDrift } from '../domain/run/tool-drift.ts';
import { noteToolDrift } from '../store/work/pinned-tools.ts';

/** Records a drift once, in events and log. @throws BatonError `fenced`: the tool must not be called */
export async function reportDrift(deps: JobDeps, scope: JobScope, drift: ToolDrift): Promise<void> {
  const { sessionId, runId, fence, held } = scope;
  const eventSeq = await retryWhileStoreUnavailable(held, () => noteToolDrift(deps.db, fence, sessionId, drift)).catch(
    (error) => {
      if (error instanceof BatonError && error.code === 'fenced') held.stop('lost');
      throw error;
    },
  );
  if (eventSeq === null) return;
  afterEvent(deps, sessionId, { eventSeq });
  const { server, tool, change } = drift;
  deps.log('warn', { event: 'mcp_tool_drifted', server, tool, change, sessionId, runId });
}
