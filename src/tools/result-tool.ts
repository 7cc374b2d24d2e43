import { type OutputFormat, RESULT_TOOL } from '../domain/run/output-format.ts';
import type { Json } from '../domain/transcript/message.ts';
import { checkInTime } from './check-output.ts';
import type { ServerTool, Tool } from './tool.ts';

/** The tool by which a model gives the result of a run. If the input does not fit, it fails and names the faults. */
function createResultTool({ schema }: OutputFormat): ServerTool {
  return {
    name: RESULT_TOOL,
    description: 'Gives the result of the task, and ends the work. Call it once, when everything else is done.',
    inputSchema: schema,
    readOnly: true,
    async execute(input, { signal }) {
      const checked = await checkInTime(schema, input as Json, signal);
      if ('value' in checked) return 'The result is taken.';
      throw new Error(`This is not the result that was asked for:\n${checked.problem}\nCall ${RESULT_TOOL} again.`);
    },
  };
}

const toolLists = new WeakMap<readonly Tool[], Readonly<{ key: string; tools: readonly Tool[] }>>();

/** The tools with the result tool. The same schema gives the same list, so that its tokens are counted once. */
export function withResultTool(tools: readonly Tool[], format: OutputFormat): readonly Tool[] {
  const key = JSON.stringify(format.schema);
  const cached = toolLists.get(tools);
  if (cached?.key === key) return cached.tools;
  const both = [...tools.filter(({ name }) => name !== RESULT_TOOL), createResultTool(format)];
  toolLists.set(tools, { key, tools: both });
  return both;
}
