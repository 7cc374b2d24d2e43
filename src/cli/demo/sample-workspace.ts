import { mkdir } from 'node:fs/promises';
import { DEFAULT_WORKSPACE_DIR } from '../../platform/config.ts';
import { systemErrorCode } from '../../tools/workspace/workspace-error.ts';
import { validConfig } from '../valid-config.ts';
import { writeSampleProject } from './sample-project.ts';

/**
 * Makes the default workspace with a small project in it, so that a first question finds something. A folder that is
 * there, or that the environment names, is left as it is.
 * @returns the folder, or null where none was made
 */
export async function makeSampleWorkspace(environment: NodeJS.ProcessEnv): Promise<string | null> {
  if (validConfig(environment)?.workspaceDir !== DEFAULT_WORKSPACE_DIR) return null;
  try {
    await mkdir(DEFAULT_WORKSPACE_DIR);
  } catch (error) {
    // Where it is not there already, the worker says why it cannot be made.
    if (systemErrorCode(error) !== undefined) return null;
    throw error;
  }
  await writeSampleProject(DEFAULT_WORKSPACE_DIR);
  return DEFAULT_WORKSPACE_DIR;
}
