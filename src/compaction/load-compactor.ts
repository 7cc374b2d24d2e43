import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import { importModule, refuseInWorkspace } from '../tools/load-module.ts';
import type { Compactor } from './strategies/module-strategy.ts';

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
