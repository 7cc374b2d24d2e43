import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { readAgent } from '../../agents/agent.ts';
import {
  compactSessionRoute,
  type contextBody,
  getContextRoute,
  type maintenanceBody,
  pruneSessionRoute,
} from '../../api/context.ts';
import { contextMeterOf, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { maintainSession } from '../../commands/maintain-session.ts';
import { thresholdWarning } from '../../domain/context/compaction/compaction-floor.ts';
import type { Anchor } from '../../domain/context/meter/measure.ts';
import { readMeter } from '../../domain/context/meter/meter-reading.ts';
import { formatId } from '../../domain/ids.ts';
import type { PendingKind } from '../../domain/run/run.ts';
import { listCompactions, readCompactionSums, readMeteredContext } from '../../store/session/context.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';

function toAnchorBody(anchor: Anchor | null): z.infer<typeof contextBody>['anchor'] {
  if (anchor === null) return null;
  const { inputTokens, outputTokens } = anchor.usage;
  return { messageSeq: anchor.messageSeq, inputTokens, outputTokens };
}

const LISTED_COMPACTIONS = 20;

/** The state of a session's context; compaction and prune on request. */
export function registerContextRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(getContextRoute, async (c) => {
    const { id } = c.req.valid('param');
    const context = await readMeteredContext(db, tenantOf(c), id);
    const agent = readAgent(context.agentSnapshot);
    const model = await knownModel(deps, deps.models(agent.model), tenantOf(c));
    const meter = await contextMeterOf(agent, model, await offeredTools(deps, agent, model, context.view));
    const measurement = meter.measure(context.view, context.contextState);
    const compactions = await listCompactions(db, tenantOf(c), id, LISTED_COMPACTIONS);
    return c.json(
      {
        model: agent.model,
        guessed: meter.isGuess,
        ...readMeter(measurement, meter.limits, meter.thresholds),
        complete: context.isWhole,
        anchor: measurement.isAnchored ? toAnchorBody(meter.anchorOf(context.contextState)) : null,
        strategy: agent.context.compaction.strategy,
        warning: thresholdWarning(meter, context.contextState, context.view),
        compactingSince: context.compactingSince?.toISOString() ?? null,
        compactionSums: await readCompactionSums(db, tenantOf(c), id),
        compactions: compactions.map(({ startedAt, finishedAt, summaryMessageId, ...compaction }) => ({
          ...compaction,
          summaryMessageId: summaryMessageId === null ? null : formatId('message', summaryMessageId),
          startedAt: startedAt.toISOString(),
          finishedAt: finishedAt?.toISOString() ?? null,
        })),
      },
      200,
    );
  });

  const maintain = async (
    c: Context<HttpEnv>,
    id: string,
    kind: Exclude<PendingKind, 'step'>,
  ): Promise<z.infer<typeof maintenanceBody>> => {
    const { runId, queued } = await maintainSession(deps, { actor: c.get('caller'), sessionId: id, kind });
    return { sessionId: formatId('session', id), runId: formatId('run', runId), queued };
  };
  app.openapi(compactSessionRoute, async (c) => c.json(await maintain(c, c.req.valid('param').id, 'compaction'), 202));
  app.openapi(pruneSessionRoute, async (c) => c.json(await maintain(c, c.req.valid('param').id, 'prune'), 202));
}
