import type { ToolOutput } from '../domain/transcript/message.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { Tool, ToolContext } from '../tools/tool.ts';
import type { Player } from './player.ts';

/**
 * The agents' tools with the results of cases. Name, description, schema and approvals stay those of the tool.
 * @param playerOf the player of a session by its public id
 * @param isLive tools run as they are. Only a task for another agent keeps its recorded result.
 */
export function recordedTools(
  toolsOf: ToolCatalogue,
  playerOf: (sessionId: string) => Player,
  isLive: boolean,
): ToolCatalogue {
  // The same list for the same tools, so that they are described and counted once.
  const known = new WeakMap<readonly Tool[], readonly Tool[]>();
  return async (agent) => {
    const tools = await toolsOf(agent);
    const made = known.get(tools) ?? tools.map((tool) => (isReplaced(tool, isLive) ? replace(tool, playerOf) : tool));
    known.set(tools, made);
    return made;
  };
}

/** A tool that the client runs has no function: its recorded result is given as the client gave it. */
const isReplaced = ({ child, execute }: Tool, isLive: boolean): boolean =>
  child !== undefined || (execute !== undefined && !isLive);

function replace({ child: _task, ...tool }: Tool, playerOf: (sessionId: string) => Player): Tool {
  return {
    ...tool,
    async execute(input: unknown, { sessionId, toolCallId }: ToolContext) {
      const call = playerOf(sessionId).call({ toolName: tool.name, toolCallId, input });
      if (call?.output === undefined) throw new Error(`The case has no result for this call of ${tool.name}.`);
      if (call.output.type === 'error-text') throw new Error(call.output.value);
      return call.output;
    },
    toModelOutput: ({ output }) => toSdkOutput(output as ToolOutput),
  };
}

/** In the form that a tool may return. */
function toSdkOutput(output: ToolOutput): unknown {
  if (output.type !== 'content') return output;
  const value = output.value.map((item) => {
    if (item.type === 'text') return item;
    const { mediaType, filename, url } = item;
    const data = url.startsWith('data:')
      ? { type: 'data', data: url.slice(url.indexOf(',') + 1) }
      : { type: 'url', url };
    return { type: 'file', mediaType, data, ...(filename !== undefined && { filename }) };
  });
  return { type: 'content', value };
}
