import type { AgentCatalogue } from '../agents/agent.ts';
import { ProblemError } from './bodies/problem.ts';

/** @throws ProblemError `not_found` for an unknown agent, as OpenAI does for an unknown model */
export async function refuseUnknownModel(agents: AgentCatalogue, name: string): Promise<void> {
  const names = (await agents.current()).names();
  if (names.includes(name)) return;
  const detail = `There is no agent ${JSON.stringify(name)}; known: ${names.join(', ')}`;
  throw new ProblemError('not_found', detail, { errors: [{ path: 'model', message: detail }] });
}
