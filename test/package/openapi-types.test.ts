import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { startTestApi } from '../http/test-api.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run = promisify(execFile);

/** The generator needs TypeScript 5, beside which the one of this repository cannot be installed. */
const INSTALL = [
  'install',
  '--no-audit',
  '--no-fund',
  '--prefer-offline',
  'openapi-typescript@7.13.0',
  'typescript@5.9',
];

/** A program against the generated types: it compiles only where events are told apart by their type. */
const PROGRAM = `
import type { components, operations } from './api.ts';
type Event = components['schemas']['SessionEvent'];
export const retryOf = (event: Event): string | null =>
  event.type === 'step:retrying' ? event.data.nextAttemptAt : null;
export const body: operations['createSession']['requestBody']['content']['application/json'] = { agent: 'workspace' };
export const answer = (given: operations['createChatCompletion']['responses'][200]['content']['application/json']) =>
  given.choices[0]?.message.content;
`;

it('the OpenAPI document becomes types by openapi-typescript, and a program against them compiles', async (context) => {
  await using folder = await temporaryFolder();
  const inFolder = (command: string, ...args: string[]) => run(command, args, { cwd: folder.path });
  await writeFile(path.join(folder.path, 'package.json'), '{"type": "module", "private": true}');
  const missing = await inFolder('npm', ...INSTALL).then(() => null, String);
  if (missing !== null) {
    process.stdout.write(`tests: no types are generated (openapi-typescript cannot be installed: ${missing})\n`);
    return context.skip('openapi-typescript cannot be installed');
  }
  await using api = await startTestApi();
  const { text } = await api.call('GET', '/openapi.json');
  await writeFile(path.join(folder.path, 'openapi.json'), text);
  await writeFile(path.join(folder.path, 'program.ts'), PROGRAM);
  await inFolder('npx', 'openapi-typescript', 'openapi.json', '--output', 'api.ts');
  const flags = [
    '--noEmit',
    '--strict',
    '--noUncheckedIndexedAccess',
    '--allowImportingTsExtensions',
    '--module',
    'nodenext',
  ];
  const compiled = await inFolder('npx', 'tsc', ...flags, 'program.ts').then(
    () => '',
    (error: Readonly<{ stdout: string }>) => error.stdout,
  );
  expect(compiled).toBe('');
});
