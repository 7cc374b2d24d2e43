import { type Config, loadConfig } from '../platform/config.ts';

/** The configuration; null where it is invalid, for callers that leave it to the start to say why. */
export function validConfig(environment: NodeJS.ProcessEnv): Config | null {
  try {
    return loadConfig(environment);
  } catch {
    return null;
  }
}
