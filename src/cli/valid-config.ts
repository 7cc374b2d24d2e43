import { type Config, loadConfig } from '../platform/config.ts';

/** The configuration; null: it is invalid, and the start will say why. */
export function validConfig(environment: NodeJS.ProcessEnv): Config | null {
  try {
    return loadConfig(environment);
  } catch {
    return null;
  }
}
