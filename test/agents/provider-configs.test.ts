import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadProviders } from '../../src/model/provider-configs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function load(content: unknown, environment: Record<string, string> = {}) {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'providers.yaml');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return loadProviders(file, environment);
}

const baseUrl = 'http://127.0.0.1:11434/v1';

describe('the file of providers', () => {
  it('names them with their keys and headers, which come from the environment', async () => {
    expect(loadProviders(undefined, {})).toEqual([]);
    const providers = {
      ollama: { kind: 'openai-compatible', baseUrl },
      gateway: { kind: 'anthropic', apiKeyEnv: 'KEY', headersFromEnv: { 'x-team': 'TEAM' } },
    };
    expect(await load({ providers }, { KEY: 'sk', TEAM: 'red' })).toEqual([
      { name: 'ollama', kind: 'openai-compatible', baseUrl, headers: {} },
      { name: 'gateway', kind: 'anthropic', apiKey: 'sk', headers: { 'x-team': 'red' } },
    ]);
  });

  it.each([
    ['nothing', '', '(root): '],
    ['an unknown key', { provider: {} }, 'providers: '],
    ['an unknown kind', { providers: { a: { kind: 'azure' } } }, 'providers.a.kind: '],
    ['no URL', { providers: { a: { kind: 'openai-compatible' } } }, 'providers.a.baseUrl: '],
    ['a URL that is none', { providers: { a: { kind: 'openai-compatible', baseUrl: 'x' } } }, 'providers.a.baseUrl: '],
    [
      'no key',
      { providers: { a: { kind: 'openai' } } },
      'providers.a.apiKeyEnv: a provider of kind openai needs a key',
    ],
    ['a key in the file', { providers: { a: { kind: 'openai', apiKey: 'sk' } } }, 'providers.a: '],
    ['a key that is not set', { providers: { a: { kind: 'openai', apiKeyEnv: 'NO' } } }, 'variable NO is not set'],
    ['a name that is none', { providers: { A: { kind: 'openai', apiKeyEnv: 'K' } } }, 'providers.A: '],
    [
      'the simulator’s name',
      { providers: { 'simulated-chat': { kind: 'openai', apiKeyEnv: 'K' } } },
      'simulated-chat: ',
    ],
    ['what is no YAML', '{', 'line 1, column 2: not valid YAML: '],
  ])('is refused for %s, with the key', async (_what, content, message) => {
    const refused = { code: 'config_invalid', message: expect.stringContaining(message) };
    await expect(load(content)).rejects.toMatchObject(refused);
  });
});
