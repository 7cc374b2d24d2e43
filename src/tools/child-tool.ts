import type { ToolSource } from '../agents/tool-sources.ts';
import { childInputSchema, DEFAULT_MAX_PARALLEL } from '../domain/run/child.ts';
import type { Tool } from './tool.ts';

type ChildSource = Pick<Exclude<ToolSource, string>, 'description' | 'mode' | 'limits' | 'maxParallel'>;

const HOW = {
  wait: 'Call it several times in one answer to let several work at the same time.',
  background: 'The call ends at once, and you go on with your work; you are told when the agent has ended.',
} as const;

/** The tool by which a model gives tasks to another agent. No worker runs it: its call begins a session. */
export function createChildTool(agent: string, source: ChildSource): Tool {
  const { mode = 'wait', limits = {}, maxParallel = DEFAULT_MAX_PARALLEL } = source;
  const description = source.description ?? `Gives a task to the agent ${agent} and returns its answer.`;
  return {
    name: agent,
    description: `${description} ${HOW[mode]}`,
    inputSchema: childInputSchema,
    child: { agent, mode, limits, maxParallel },
  };
}
