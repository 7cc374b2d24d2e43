import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { importModule, refuseInWorkspace } from '../tools/load-module.ts';

/** The argument of a module's function. */
type CompactorPlan = Readonly<{
  /** The messages to replace, as the view holds them. */
  messages: readonly ViewMessage[];
  /** The same messages as text. */
  transcript: string;
  /** The previous summary. Null: this is the first round. */
  previousSummary: string | null;
  keptMessages: number;
  /** Limit of the returned text. */
  maxTokens: number;
  countTokens: (text: string) => number;
  /** From 1. */
  round: number;
  sessionId: string;
  /** Aborted when the time is up or the run is cancelled. */
  signal: AbortSignal;
}>;

/** Returns the text that replaces the messages. */
export type Compactor = (plan: CompactorPlan) => string | Promise<string>;

/**
 * Loads the function that a module exports under the name after `#`, or as its default.
 * @param name `module:<path>` or `module:<path>#<export>`
 * @throws BatonError `config_invalid` with the key of the agent's file
 */
export type LoadCompactor = (name: `module:${string}`) => Promise<Compactor>;

const KEY = 'context.compaction.strategy';

/** Loads modules like those of tools: once per process. @param folder base of relative paths */
export function createCompactorLoader(folder: string, workspaceDir: string): LoadCompactor {
  return async (name) => {
    const [module = '', exportName = 'default'] = name.slice('module:'.length).split('#');
    const file = path.resolve(folder, module);
    await refuseInWorkspace(file, path.resolve(workspaceDir), KEY);
    const compactor = (await importModule(file, KEY))[exportName];
    if (typeof compactor === 'function') return compactor as Compactor;
    throw new BatonError('config_invalid', `${KEY}: ${file} exports no function named ${exportName}`);
  };
}
