import { shownParts } from '../../model/shown-parts.ts';
import type { Part, ToolPart, ViewMessage } from '../../transcript/message.ts';
import { outputText } from '../../transcript/output-text.ts';

/** The tool that finds deferred tools. */
export const SEARCH_TOOLS = 'search_tools';

const NAMES = /[a-zA-Z0-9_-]{1,64}/g;

/**
 * The deferred tools to which the view refers, by a call or by a search result that it shows. Nothing is stored: a tool
 * whose references a prune or compaction removes has to be found by another search.
 * @param names of the deferred tools
 */
export function workingSet(view: readonly ViewMessage[], names: ReadonlySet<string>): ReadonlySet<string> {
  if (names.size === 0) return names;
  const calls = view.flatMap((message) => (message.role === 'assistant' ? shownParts(message).filter(isCall) : []));
  return new Set(calls.flatMap(namedBy).filter((name) => names.has(name)));
}

const isCall = (part: Part): part is ToolPart => part.type === 'tool';

/** Tools that a call names: its own, and those that a search found. */
function namedBy({ toolName, output }: ToolPart): string[] {
  if (toolName !== SEARCH_TOOLS || output === undefined) return [toolName];
  return [...outputText(output).matchAll(NAMES)].map(([name]) => name);
}
