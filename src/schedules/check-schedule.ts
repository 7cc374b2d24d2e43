import type { AgentCatalogue } from '../agents/agent.ts';
import { BatonError } from '../domain/errors.ts';
import { clockProblem } from '../domain/schedules/fire-times.ts';

type Checked = Parameters<typeof clockProblem>[0] & Readonly<{ agent: string }>;

/**
 * Refuses a schedule that could never fire.
 * @param nowMs by the clock of Postgres
 * @throws BatonError `agent_not_found`, `invalid_request` with the field that is wrong
 */
export async function checkSchedule(agents: AgentCatalogue, schedule: Checked, nowMs: number): Promise<void> {
  (await agents.current()).get(schedule.agent);
  const problem = clockProblem(schedule, nowMs);
  if (problem !== null) throw new BatonError('invalid_request', problem.message, { field: problem.field });
}
