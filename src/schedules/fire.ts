import { type AgentCatalogue, agentVersion } from '../agents/agent.ts';
import type { Actor } from '../commands/audit.ts';
import { type FireNow, type FireSession, fireDueSchedule, noteRefusedFire } from '../commands/fire-schedule.ts';
import type { CommandPorts } from '../commands/ports.ts';
import { BatonError } from '../domain/errors.ts';
import { type ModelCheck, refuseUnusableModels } from '../model/configured-models.ts';
import { findSchedule, type ScheduleRow } from '../store/around/schedules.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';

export type FireDeps = CommandPorts &
  Readonly<{
    agents: AgentCatalogue;
    modelCheck: ModelCheck;
    pinTools: McpServers['pin'];
  }>;

/** `pinWithinMs`: time for an MCP server to list its tools to a fire that nobody waits for. */
export type DueFireDeps = FireDeps & Readonly<{ pinWithinMs: number }>;

/** What a fire needs before its transaction, which must not wait for an MCP server. */
export type ReadyFire = Readonly<{ newSession: FireSession } | { refusal: BatonError }>;

/** @throws errors of an unavailable Postgres, and of the signal */
export async function readyFire(deps: DueFireDeps, schedule: ScheduleRow, signal: AbortSignal): Promise<ReadyFire> {
  try {
    return {
      newSession: schedule.session_id === null ? await newSession(deps, schedule, signal, deps.pinWithinMs) : null,
    };
  } catch (error) {
    return { refusal: refusalOf(error) };
  }
}

/**
 * Fires a schedule that is due. A fire that is refused is noted with the reason, and the schedule goes on.
 * @throws errors of an unavailable Postgres: the fire stays due
 */
export async function fireDue(deps: FireDeps, schedule: ScheduleRow, ready: ReadyFire): Promise<void> {
  if ('refusal' in ready) return noteRefusedFire(deps, schedule.id, ready.refusal);
  try {
    await fireDueSchedule(deps, schedule, ready.newSession);
  } catch (error) {
    await noteRefusedFire(deps, schedule.id, refusalOf(error));
  }
}

/** @throws every error that is not a refusal, as that of an unavailable Postgres */
function refusalOf(error: unknown): BatonError {
  if (!(error instanceof BatonError) || isStoreUnavailable(error)) throw error;
  return error;
}

/**
 * Prepares a fire that a caller requests: the session that it begins.
 * @throws BatonError `not_found`, `agent_not_found`, `tools_unavailable`
 */
export async function prepareFire(
  deps: FireDeps,
  actor: Actor,
  scheduleId: string,
  signal: AbortSignal,
): Promise<FireNow> {
  const schedule = await findSchedule(deps.db, actor.tenantId, scheduleId);
  return {
    actor,
    scheduleId,
    newSession: schedule.session_id === null ? await newSession(deps, schedule, signal) : null,
  };
}

/** @param pinWithinMs time for each MCP server; absent: as long as a request takes */
async function newSession(
  deps: FireDeps,
  schedule: ScheduleRow,
  signal: AbortSignal,
  pinWithinMs?: number,
): Promise<NonNullable<FireSession>> {
  const agents = await deps.agents.current();
  const agent = agents.get(schedule.agent_name);
  refuseUnusableModels(agent, agents, deps.modelCheck);
  return {
    tenantId: schedule.tenant_id,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await deps.pinTools(agent, signal, pinWithinMs),
    title: schedule.title,
    metadata: {},
  };
}
