import type { AgentCatalogue } from '../agents/agent.ts';
import { ProblemError } from './bodies/problem.ts';

/**
 * The name of the agent that a client of OpenAI's API asks for, by it or by an alias.
 * @throws ProblemError `not_found` for an unknown agent, as OpenAI does for an unknown model
 */
export async function findModel(agents: AgentCatalogue, model: string): Promise<string> {
  const set = await agents.current();
  const agent = set.find(model);
  if (agent !== null) return agent.name;
  const detail = `There is no agent ${JSON.stringify(model)}; known: ${set.names().join(', ')}`;
  throw new ProblemError('not_found', detail, { errors: [{ path: 'model', message: detail }] });
}
