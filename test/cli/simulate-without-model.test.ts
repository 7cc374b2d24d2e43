import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { simulateWithoutModel } from '../../src/cli/simulate-without-model.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { runNode } from '../deploy/process.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { freePort } from '../support/free-port.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { demoPlace } from './support/demo-process.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** The environment after the function has changed it; null: unchanged. */
async function simulated(environment: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv | null> {
  await using stack = new AsyncDisposableStack();
  const result = await simulateWithoutModel(environment, stack);
  return result === environment ? null : result;
}

describe('a simulated model', () => {
  it.each([
    ['an OpenAI key', { OPENAI_API_KEY: 'k' }],
    ['an Anthropic key', { ANTHROPIC_API_KEY: 'k' }],
    ['a file of providers', { BATON_PROVIDERS_FILE: 'providers.yaml' }],
    ['a simulator elsewhere', { BATON_SIMULATOR_URL: 'http://127.0.0.1:9' }],
    ['a model that is asked for', { BATON_MODEL: 'openai/gpt-5.4' }],
    ['a configuration that is wrong, which the start is to name', { BATON_PORT: 'x' }],
  ])('does not stand in for %s', async (_what, environment) => {
    expect(await simulated(environment)).toBeNull();
  });

  it.each([
    'openaiApiKey: k',
    'anthropicApiKey: k',
    'providersFile: providers.yaml',
    'simulatorUrl: http://127.0.0.1:9',
  ])('does not stand in for what the configuration file says: %s', async (line) => {
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, 'baton.yaml');
    await writeFile(file, `${line}\n`);
    expect(await simulated({ BATON_CONFIG: file })).toBeNull();
  });

  it('stands in where nothing is configured, also by name, with empty variables and a file about other things', async () => {
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, 'baton.yaml');
    await writeFile(file, 'port: 4401\n');
    const nothing = await simulated({ OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '', BATON_MODEL: '', BATON_CONFIG: file });
    expect(loadConfig(nothing ?? {})).toMatchObject({
      port: 4401,
      model: 'simulated/workspace',
      simulatorUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    });
    expect(await simulated({ BATON_MODEL: 'simulated-chat/x' })).toMatchObject({ BATON_MODEL: 'simulated-chat/x' });
  });
});

describe('npm start', () => {
  const start = async (environment: Readonly<Record<string, string>>): Promise<string> => {
    await using database = await createTestDatabase();
    const settings = { DATABASE_URL: database.connectionString, BATON_PORT: '0', ...environment };
    await using child = runNode(['bin/baton.js', 'dev'], { cwd: ROOT, environment: settings });
    await child.logged('process_started');
    const { code, output } = await child.stop();
    expect(code).toBe(0);
    return output;
  };

  it('says how to get a real model, and is silent where there is one', async () => {
    expect(await start({})).toContain(
      'A simulated model answers; for a real one set OPENAI_API_KEY, ANTHROPIC_API_KEY or BATON_PROVIDERS_FILE.',
    );
    const configured = await start({ ANTHROPIC_API_KEY: 'k' });
    expect(configured).not.toContain('simulated model');
    // The agent uses another provider.
    expect(configured).toMatch(/"event":"agent_without_provider","agent":"workspace","model":"openai\/[^"]+"/);
  });
});

describe('npm start, with npm', () => {
  it('ends by a signal to npm, and frees its port', async () => {
    await using database = await createTestDatabase();
    const port = await freePort();
    const environment = childEnvironment({ DATABASE_URL: database.connectionString, BATON_PORT: String(port) });
    const npm = spawn('npm', ['start'], { cwd: ROOT, env: environment, stdio: ['ignore', 'pipe', 'ignore'] });
    // Not before each process that has its output has ended.
    const closed = once(npm, 'close');
    for await (const line of createInterface({ input: npm.stdout })) {
      if (line.includes('"event":"process_started"')) npm.kill('SIGTERM');
    }
    await closed;
    await using server = await tcpServer(port);
    expect(server.port).toBe(port);
  });

  it('tries its port before it touches the database, and names the setting', async () => {
    await using database = await createEmptyDatabase();
    await using taken = await tcpServer(0);
    const environment = { DATABASE_URL: database.connectionString, BATON_PORT: String(taken.port) };
    await using child = runNode(['bin/baton.js', 'dev'], { cwd: ROOT, environment });
    const { code, output } = await child.ended;
    expect(code).toBe(1);
    expect(output).toMatch(
      /cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE.*; end what listens there, or set BATON_PORT/,
    );
    const client = new pg.Client({ connectionString: database.connectionString });
    await client.connect();
    const { rows } = await client.query("select to_regclass('sessions') as name");
    await client.end();
    expect(rows).toEqual([{ name: null }]);
  });
});

async function tcpServer(port: number) {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

describe('the demo', () => {
  it('asks the provider that is configured, and says so where its agent’s model is another’s', async () => {
    await using place = await demoPlace();
    const { exitCode, stderr } = await place.run([], { ANTHROPIC_API_KEY: 'k' });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/no provider is configured for openai\/.*; configured: anthropic; BATON_MODEL=/);
  });
});
