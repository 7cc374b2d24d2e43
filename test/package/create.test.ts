import path from 'node:path';
import { expect, it } from 'vitest';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { run } from './consumer.ts';
import { startRegistry } from './local-registry.ts';
import { packAll } from './packed.ts';

it('npm create baton-run makes a folder that npm installs, and whose program, test and types work without a key', async ({
  skip,
}) => {
  const { server, client, create } = await packAll();
  await using registry = await startRegistry([server, client, create]);
  await using folder = await temporaryFolder();
  await using database = await createEmptyDatabase();
  // npm reaches the registry as it does elsewhere on this machine: perhaps by a proxy that the environment names.
  const environment = {
    ...process.env,
    OPENAI_API_KEY: '',
    DATABASE_URL: database.connectionString,
    PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH']}`,
    npm_config_noproxy: '127.0.0.1',
    npm_config_registry: registry.url,
    npm_config_replace_registry_host: 'never',
  };
  const npm = (args: readonly string[], cwd: string, more: Readonly<Record<string, string>> = {}) =>
    run('npm', args, { cwd, env: { ...environment, ...more } });
  // What npm has run once it runs again from its cache.
  const own = { npm_config_cache: path.join(folder.path, 'cache'), npm_config_yes: 'true' };
  const made = await npm(['create', 'baton-run', 'my-agent'], folder.path, own);
  expect(made.stdout).toContain('cd my-agent\n');
  const agent = path.join(folder.path, 'my-agent');
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  const failure = await npm(install, agent).then(() => null, String);
  if (failure !== null && /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT/.test(failure)) {
    process.stdout.write(`tests: nothing is installed (${failure})\n`);
    return skip('npm reaches no registry');
  }
  expect(failure).toBeNull();
  expect((await npm(['start', '--silent'], agent)).stdout).toMatch(/^order-7 was shipped on Monday/);
  expect((await npm(['test'], agent)).stdout).toMatch(/pass 1$/m);
  await npm(['run', 'check'], agent);
}, 400_000);
