import type { Part } from '../domain/transcript/message.ts';
import { argumentsProblem } from '../tools/check-arguments.ts';
import type { Tool } from '../tools/tool.ts';
import { isOpenCall } from './endings/partial-answer.ts';

/**
 * Checks the arguments of a whole answer's calls, whoever runs them. A call whose arguments its tool does not take has
 * its outcome with the answer, and the model reads why.
 */
export async function checkCalls(
  tools: readonly Tool[],
  parts: readonly Part[],
  signal: AbortSignal,
): Promise<readonly Part[]> {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return Promise.all(
    parts.map(async (part): Promise<Part> => {
      const tool = isOpenCall(part) ? byName.get(part.toolName) : undefined;
      if (!isOpenCall(part) || tool === undefined) return part;
      const problem = await argumentsProblem(tool, part.input, signal);
      return problem === null ? part : { ...part, state: 'error', output: { type: 'error-text', value: problem } };
    }),
  );
}
