import { shownParts } from '../../model/shown-parts.ts';
import type { Part, ToolPart, ViewMessage } from '../../transcript/message.ts';
import { outputText } from '../../transcript/output-text.ts';

/** The tool that finds those which a model is not offered from the beginning. */
export const SEARCH_TOOLS = 'search_tools';

const NAMES = /[a-zA-Z0-9_-]{1,64}/g;

/**
 * Which of the tools that have to be found are in the session's working set: those that the view refers to, by the
 * result of a search that it shows or by a call. Nothing is stored of it: what a prune or a compaction takes out of the
 * view is out of the set with the next step, and is found again by another search.
 * @param names of the tools that have to be found
 */
export function workingSet(view: readonly ViewMessage[], names: ReadonlySet<string>): ReadonlySet<string> {
  if (names.size === 0) return names;
  const calls = view.flatMap((message) => (message.role === 'assistant' ? shownParts(message).filter(isCall) : []));
  return new Set(calls.flatMap(namedBy).filter((name) => names.has(name)));
}

const isCall = (part: Part): part is ToolPart => part.type === 'tool';

/** What a call names: its tool, and whatever a search has found. */
function namedBy({ toolName, output }: ToolPart): string[] {
  if (toolName !== SEARCH_TOOLS || output === undefined) return [toolName];
  return [...outputText(output).matchAll(NAMES)].map(([name]) => name);
}
