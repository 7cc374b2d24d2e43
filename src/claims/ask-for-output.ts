import { type OutputRequest, planOutput } from '../domain/model/output-rules.ts';
import { withResultTool } from '../tools/result-tool.ts';
import type { Tool } from '../tools/tool.ts';
import type { KnownModel } from './context-meter.ts';
import type { JobScope } from './job-scope.ts';

type AskedOutput = Readonly<{
  /** Null: the step is not asked for a result. */
  request: OutputRequest | null;
  /** The tools of the request. */
  tools: readonly Tool[];
  /** The tools that the context meter counts: a schema in a field of its own is as long as a tool with it. */
  measured: readonly Tool[];
}>;

/** Decides how a step asks for the result of its run. A final answer after a limit is asked for in words alone. */
export function askForOutput(
  { output, finalAnswerFor }: Pick<JobScope, 'output' | 'finalAnswerFor'>,
  { resolved, entry }: Pick<KnownModel, 'resolved' | 'entry'>,
  offered: readonly Tool[],
): AskedOutput {
  if (output === null || finalAnswerFor !== null) return { request: null, tools: offered, measured: offered };
  const { protocol, modelId } = resolved;
  const at = { protocol, modelId, hasTools: offered.length > 0, takesTools: entry.tools };
  const request = planOutput(output.format, output.state, at);
  const both = withResultTool(offered, output.format);
  const tools = request.by === 'tool' ? both : request.tools === 'omitted' ? NONE : offered;
  return { request, tools, measured: request.by === 'later' ? offered : both };
}

const NONE: readonly Tool[] = [];
