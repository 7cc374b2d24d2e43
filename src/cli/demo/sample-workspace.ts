import { mkdir } from 'node:fs/promises';
import { DEFAULT_WORKSPACE_DIR } from '../../platform/settings.ts';
import { systemErrorCode } from '../../tools/workspace/workspace-error.ts';
import { validConfig } from '../valid-config.ts';
import { writeSampleProject } from './sample-project.ts';

/**
 * Makes the default workspace with a small project, so that a first question finds something. An existing folder, or
 * one that the environment names, stays as it is.
 * @returns null: none was made
 */
export async function makeSampleWorkspace(environment: NodeJS.ProcessEnv): Promise<string | null> {
  if (validConfig(environment)?.workspaceDir !== DEFAULT_WORKSPACE_DIR) return null;
  try {
    await mkdir(DEFAULT_WORKSPACE_DIR);
  } catch (error) {
    // If the folder cannot be made, the worker says why.
    if (systemErrorCode(error) !== undefined) return null;
    throw error;
  }
  await writeSampleProject(DEFAULT_WORKSPACE_DIR);
  return DEFAULT_WORKSPACE_DIR;
}
