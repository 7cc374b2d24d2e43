import type { ModelEntry } from '../domain/context/limits/model-entry.ts';
import type { ReasoningLevel } from '../domain/model/model-settings.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import type { ModelPrompt } from '../model/model-prompt.ts';
import type { Tool } from '../tools/tool.ts';

export type ModelRequest = Readonly<{
  resolved: ResolvedModel;
  entry: ModelEntry;
  prompt: ModelPrompt;
  /** Sent to keep the provider's cached prefix. An answer that calls a tool is refused. */
  tools: readonly Tool[];
  maxOutputTokens: number;
  /** Set if the cached prefix was written with this reasoning level: another level would miss the cache. */
  reasoning?: ReasoningLevel;
  /** The keys of its files; see `fileGroupsOf`. */
  files?: readonly (readonly string[])[];
  /** Makes it with all these changes, also of what it shows. Null: not possible. Default: its body is changed. */
  remake?: (changes: readonly Adaptation[]) => Promise<ModelRequest | null>;
}>;
