import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { importModule, refuseInWorkspace } from '../tools/load-module.ts';

/** What the function of a module is given: what goes, and how much may stand for it. */
type CompactorPlan = Readonly<{
  /** The messages that go, as the view holds them. */
  messages: readonly ViewMessage[];
  /** The same in words. */
  transcript: string;
  /** What the summary before says; null in the first round. */
  previousSummary: string | null;
  /** How many messages stay as they are. */
  keptMessages: number;
  /** Most tokens of the text that it returns. */
  maxTokens: number;
  countTokens: (text: string) => number;
  /** From 1. */
  round: number;
  sessionId: string;
  /** Aborted when the time is up or the run is cancelled. */
  signal: AbortSignal;
}>;

/** The text that stands for the messages that go. */
export type Compactor = (plan: CompactorPlan) => string | Promise<string>;

/**
 * The function that a module exports, under the name after `#` or as its default.
 * @param name `module:<path>` or `module:<path>#<export>`
 * @throws BatonError `config_invalid` with the key of the agent's file
 */
export type LoadCompactor = (name: `module:${string}`) => Promise<Compactor>;

const KEY = 'context.compaction.strategy';

/** Loads modules as those of tools are: each is read once per process. @param folder that relative paths count from */
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
