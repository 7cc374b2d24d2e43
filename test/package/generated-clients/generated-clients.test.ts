import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { startApi } from '../../../src/app/api-server.ts';
import { anyBackend } from '../../support/backends.ts';
import { startTestService } from '../../support/service.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const run = promisify(execFile);

const BIN = path.join(import.meta.dirname, 'node_modules/.bin');

/** A program against the types of openapi-typescript: it compiles only where events are told apart by their type. */
const TYPED_PROGRAM = `
import type { components, operations } from './types.ts';
type Event = components['schemas']['SessionEvent'];
export const retryOf = (event: Event): string | null =>
  event.type === 'step:retrying' ? event.data.nextAttemptAt : null;
export const body: operations['createSession']['requestBody']['content']['application/json'] = { agent: 'workspace' };
export const answer = (given: operations['createChatCompletion']['responses'][200]['content']['application/json']) =>
  given.choices[0]?.message.content;
/** A field that may be null is also so for a generator that knows no union of a reference with another schema. */
export const tokensOf = (message: components['schemas']['Message']): number => message.usage?.totalTokens ?? 0;
`;

/** A program against the client of hey-api, which is run: a file, a talk with its events, MCP and a hook. */
const DRIVER = `
import { client } from './hey/client.gen.ts';
import { callMcp, createSession, downloadBlob, followEvents, listMessages } from './hey/sdk.gen.ts';
import { sendMessage, takeHook, uploadBlob, waitForRun } from './hey/sdk.gen.ts';

declare const process: { env: Record<string, string | undefined>; exit: (code: number) => never };
client.setConfig({ baseUrl: process.env['BATON_URL'] ?? '', throwOnError: true });
const { data: session } = await createSession({ body: { agent: 'tester' }, throwOnError: true });
const { data: blob } = await uploadBlob({ body: new Blob(['four']), throwOnError: true });
const { data: bytes } = await downloadBlob({ path: { id: blob.id }, parseAs: 'text', throwOnError: true });
const { data: sent } = await sendMessage({ path: { id: session.id }, body: { content: 'Hello' }, throwOnError: true });
const { data: ended } = await waitForRun({ path: { id: sent.runId }, throwOnError: true });
const { data: page } = await listMessages({ path: { id: session.id }, throwOnError: true });
const usage = page.messages.map((message) => (message.usage === null ? null : typeof message.usage.totalTokens));
const json = { accept: 'application/json' };
const { data: log } = await followEvents({ path: { id: session.id }, headers: json, throwOnError: true });
const types = log.events.map(({ type }) => type);
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' } as const;
const accept = { accept: 'application/json, text/event-stream' };
const { data: pong } = await callMcp({ body: ping, headers: accept, parseAs: 'text', throwOnError: true });
const { response: hook } = await takeHook({ path: { name: 'none' }, throwOnError: false });
const isAnswered = String(pong).includes('"id":1');
console.log(JSON.stringify({ bytes, status: ended.status, usage, types, pong: isAnswered, hook: hook?.status }));
process.exit(0);
`;

const settings = {
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      noEmit: true,
      strict: true,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      target: 'es2022',
      module: 'esnext',
      moduleResolution: 'bundler',
      lib: ['es2023', 'dom', 'dom.iterable'],
      types: [],
    },
    include: ['**/*.ts'],
  }),
  'hey.config.mjs': `export default {
    input: 'openapi.json',
    output: { path: 'hey', importFileExtension: '.ts' },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
  };`,
  // Of an operation that takes bytes or a form, Orval sends the form's fields as an object, which is no body.
  'orval.config.mjs': `export default { baton: {
    input: './openapi.json',
    output: { target: './orval/baton.ts', client: 'fetch', override: { contentType: { exclude: ['multipart/form-data'] } } },
  } };`,
  'typed.ts': TYPED_PROGRAM,
  'drive.ts': DRIVER,
  'package.json': '{"type": "module", "private": true}',
};

it.skipIf(!existsSync(BIN))(
  'hey-api, Orval and openapi-typescript make clients that compile, and one of them drives the service',
  async () => {
    await using service = await startTestService({ backend: anyBackend(), environment: { BATON_PORT: '0' } });
    service.simulator.script('test', () => ({ text: 'Done.' }));
    await service.startWorker();
    await using api = await startApi(service.deps);
    await using folder = await temporaryFolder();
    const inFolder = (command: string, ...args: string[]) => run(command, args, { cwd: folder.path });
    const document = await (await fetch(`${api.url}/openapi.json`)).text();
    for (const [file, text] of Object.entries({ ...settings, 'openapi.json': document })) {
      await writeFile(path.join(folder.path, file), text);
    }
    await inFolder(path.join(BIN, 'openapi-ts'), '-f', 'hey.config.mjs', '--silent');
    await inFolder(path.join(BIN, 'orval'), '--config', 'orval.config.mjs');
    await inFolder(path.join(BIN, 'openapi-typescript'), 'openapi.json', '--output', 'types.ts');
    const compiled = await inFolder(path.join(BIN, 'tsc'), '-p', '.').then(
      () => '',
      (error: Readonly<{ stdout: string }>) => error.stdout,
    );
    expect(compiled).toBe('');
    const env = { ...process.env, BATON_URL: api.url };
    const { stdout } = await run(process.execPath, ['drive.ts'], { cwd: folder.path, env });
    expect(JSON.parse(stdout)).toEqual({
      ...{ bytes: 'four', status: 'completed', usage: [null, 'number'], pong: true, hook: 404 },
      types: expect.arrayContaining(['run:started', 'llm:response', 'run:completed']),
    });
  },
  300_000,
);
