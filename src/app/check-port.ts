import type { Config } from '../platform/config.ts';
import { VARIABLES } from '../platform/settings.ts';

/** As the service and as a program name it. */
export const PORT_SETTING = `${VARIABLES.port} (port)`;

/**
 * Tries the port of the API, so that a start that cannot serve changes nothing before it fails.
 * @throws BatonError `config_invalid`
 */
export async function checkPort({ host, port }: Pick<Config, 'host' | 'port'>): Promise<void> {
  const { tryPort } = await import('../http/listen.ts');
  await tryPort({ host, port, portSetting: PORT_SETTING });
}
