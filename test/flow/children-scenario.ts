import { sql } from 'kysely';
import type { Reply, ScriptedToolCall } from '../../simulator/reply.ts';
import type { Agent } from '../../src/agents/agent.ts';
import type { ChildLanes } from '../../src/delegation/deps.ts';
import { createFairLanes } from '../../src/platform/fair-lanes.ts';
import type { Db } from '../../src/store/db/database.ts';
import { takeDueChildren } from '../../src/store/session/children.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import type { Backend } from '../support/backends.ts';
import { startTestService, type TestService, type TestServiceOptions } from '../support/service.ts';

/** An agent whose model is scripted by the agent's name. */
export const agentOf = (name: string, more: object = {}): Partial<Agent> => ({
  name,
  model: `simulated/${name}`,
  ...more,
});

/** A call of the tool that gives tasks to an agent. */
export const task = (agent: string, input: object): ScriptedToolCall => ({ id: 'again', name: agent, input });

export const tasks = (agent: string, count: number): Reply => ({
  text: 'I share it out.',
  toolCalls: Array.from({ length: count }, (_, no) => task(agent, { task: `Look at part ${no}` })),
});

export async function startTeam(
  backend: Backend,
  agents: readonly Partial<Agent>[],
  more: Partial<TestServiceOptions> = {},
): Promise<TestService> {
  return startTestService({ backend, agents, ...more });
}

export const eventsOf = async ({ deps }: TestService, sessionId: string) =>
  readEvents(deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });

export const typesOf = async (service: TestService, sessionId: string) =>
  (await eventsOf(service, sessionId)).map(({ type }) => type);

/** Rows of the table `children`: of one parent session, or all. */
export async function childrenOf(db: Db, parentSessionId?: string) {
  const { rows } = await sql<{
    state: string;
    sessionId: string;
    runId: string;
    parentSessionId: string;
    result: Record<string, unknown> | null;
    limits: Record<string, number>;
    dueAt: Date | null;
  }>`
    select state, session_id as "sessionId", run_id as "runId", parent_session_id as "parentSessionId", result, limits,
      due_at as "dueAt" from children
    where ${parentSessionId ?? null}::uuid is null or parent_session_id = ${parentSessionId ?? null}
    order by created_at, message_id, idx`.execute(db);
  return rows;
}

/** Takes what is due, as a process does that looks after it alone. */
export const takeDue = (db: Db) => takeDueChildren(db, { limit: 10, perTenant: 10, full: [] });

/** Lanes of a process that looks after children alone. */
export const LANES: ChildLanes = {
  pins: createFairLanes({ atOnce: 100, perTenant: 100 }),
  work: createFairLanes({ atOnce: 100, perTenant: 100 }),
};

/** The tool results in the newest request to this model. */
export function resultsShown({ simulator }: TestService, model: string): readonly string[] {
  const newest = simulator.requests.findLast(({ request }) => request?.model === model);
  return (newest?.request?.messages ?? []).flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
}
